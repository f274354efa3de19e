"""Figure 1: |G_DPLR| is smooth, |G_Diag| has spikes, and the last one never goes away."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from wellposed import hippo
from wellposed.experiments._experiment import Experiment, Result
from wellposed.experiments._round import digits
from wellposed.records import Claim
from wellposed.systems import Spikes, spikes
from wellposed.systems.closed_forms import G_DPLR, G_Diag, G_difference

SIZES = (10, 100, 1000, 10_000)
_BINS = 480
_LOW, _HIGH = -1.0, 9.0  # decades of frequency


def run(track: Callable) -> Result:
    """Curves for every size, the zoom on the last spike, and the claims of section 3.1 about them."""
    grid = torch.logspace(_LOW, _HIGH, _BINS + 1, dtype=torch.float64)
    curves, zooms, last = [], [], []
    for n in track(SIZES):
        found = spikes(n)
        omega = _with_tallest(grid, found)
        curves.append({"n": n, "omega": digits(omega, 9), "magnitude": digits(G_Diag(1j * omega, n).abs())})
        zooms.append(_zoom(n, found))
        last.append({"n": n, **found[-1]._asdict(), "count": len(found)})
    data = {
        "G_DPLR": {"omega": digits(grid), "magnitude": digits(G_DPLR(1j * grid, 1).abs())},
        "G_Diag": curves,
        "zoom": zooms,
        "last_spikes": last,
    }
    tall = last[-1]
    claims = [
        Claim(
            "height of the last spike of |G_S4D - G_S4| at n = 10000, against its limit sqrt(2)/pi",
            measured=tall["height"],
            expected=math.sqrt(2) / math.pi,
            tolerance=1e-6,
            paper="Theta(1) as n grows",
        ),
        Claim(
            "location of the last spike at n = 10000 divided by n^2, against its limit 1/pi",
            measured=tall["frequency"] / 1e8,
            expected=1 / math.pi,
            tolerance=1e-6,
            paper="Theta(n^2)",
        ),
        Claim(
            "|G_S4D - G_S4| at frequency 1: how many times smaller at n = 10000 than at n = 1000",
            measured=(G_difference(1j, 1000).abs() / G_difference(1j, 10_000).abs()).item(),
            expected=10.0,
            tolerance=0.01,
            paper="falls like 1/n at low frequency",
        ),
        _lemma_claim(),
    ]
    finding = (
        f"S4's response is smooth. S4D follows it at low frequency and then spikes: {last[0]['count']}, "
        f"{last[1]['count']}, {last[2]['count']} and {last[3]['count']} times for n = 10, 100, 1000, 10000. "
        f"The last spike moves out as n^2/pi, keeps its width of 1 and its height of {tall['height']:.4f}."
    )
    return Result(finding, claims, data)


def _with_tallest(grid: Tensor, found: Spikes) -> Tensor:
    """The grid, and in each of its bins the tallest spike with points on its flanks, so that no spike is lost."""
    inside = torch.bucketize(found.frequency, grid)
    points = [grid]
    for k in inside.unique():
        members = (inside == k).nonzero()[:, 0]
        top = members[found.height[members].argmax()]
        width = found.width[top].nan_to_num(1.0)
        points.append(found.frequency[top] + width * torch.tensor([-1.5, -0.5, 0.0, 0.5, 1.5], dtype=torch.float64))
    every = torch.cat(points)
    return every[every > 0].sort().values


def _zoom(n: int, found: Spikes) -> dict[str, Any]:
    peak = found[-1]
    offset = torch.linspace(-6, 6, 121, dtype=torch.float64)
    omega = peak.frequency + offset
    return {
        "n": n,
        "frequency": peak.frequency,
        "offset": digits(offset),
        "G_Diag": digits(G_Diag(1j * omega, n).abs()),
        "G_DPLR": digits(G_DPLR(1j * omega, n).abs()),
    }


def _lemma_claim() -> Claim:
    """Lemma 1 as printed, beside G_Diag - G_DPLR from dense solves: the same up to the sign."""
    n, s = 10, 30j
    A, B = hippo.legs(n)
    N, _ = hippo.split("legs", n)
    eye = torch.eye(n, dtype=torch.complex128)
    diag = torch.linalg.solve(s * eye - N, B.to(torch.complex128))[0] / 2
    dplr = torch.linalg.solve(s * eye - A, B.to(torch.complex128))[0]
    a = s / (n + s) * math.prod((s - j) / (s + j) for j in range(1, n))
    printed = -a / (s + 1) / (math.sqrt(2) * (1 + a))
    return Claim(
        "Lemma 1 as printed, divided by G_S4 - G_S4D from dense solves (n = 10, s = 30i)",
        measured=(printed / (dplr - diag)).real.item(),
        expected=-1.0,
        tolerance=1e-12,
        paper="1",
        erratum="the right-hand side of Lemma 1 equals G_S4D - G_S4: its sign is flipped, its magnitude exact",
    )


EXPERIMENT = Experiment(
    title="The transfer function of S4 is smooth, that of S4D is not",
    source="Figure 1, Lemma 1, Theorem 2",
    paper=(
        "As n grows, |G_S4D| approaches |G_S4| at low frequency, but it has spikes, and the last one, at a "
        "frequency of order n^2, keeps a constant height: the convergence is not uniform."
    ),
    run=run,
)
