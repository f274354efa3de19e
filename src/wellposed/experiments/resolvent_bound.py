"""Theorem 3's ingredient: the resolvent of A_H stays small on the whole imaginary axis."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from wellposed import hippo
from wellposed.experiments._experiment import Experiment, Result
from wellposed.experiments._round import digits
from wellposed.records import Claim
from wellposed.systems import DenseSystem, linf_distance
from wellposed.systems.closed_forms import resolvent

SIZES = (8, 32, 128, 512)
EXPECTED = {8: 2.75, 32: 3.18, 128: 3.42, 512: 3.57}
_CERTIFIED = 32


def run(track: Callable) -> Result:
    """||(i omega - A_H)^-1||^2 along the axis for every size, beside the bound 2 ln n + 4."""
    curves = []
    for n in track(SIZES):
        omega = torch.cat([torch.zeros(1), torch.logspace(-2, math.log10(10 * n), 40 if n < 512 else 24)]).double()
        square = torch.stack([_squared_norm(w.item(), n) for w in omega])
        curves.append(
            {
                "n": n,
                "omega": digits(omega),
                "square": digits(square, 8),
                "at_zero": square[0].item(),
                "bound": bound(n),
            }
        )
    claims = [
        Claim(
            f"||A_H^-1||^2 at n = {curve['n']}, the largest value on the axis",
            curve["at_zero"],
            EXPECTED[curve["n"]],
            2e-3,
            f"at most 2 ln n + 4 = {curve['bound']:.1f}",
        )
        for curve in curves
    ]
    claims.append(
        Claim(
            f"certified supremum over the axis at n = {_CERTIFIED}, divided by the value at 0",
            certified(_CERTIFIED) ** 2 / curves[1]["at_zero"],
            1.0,
            1e-6,
            "the largest entries are at s = 0",
        )
    )
    finding = (
        "The squared norm is largest at s = 0 and grows far more slowly than the bound: "
        + ", ".join(f"{curve['at_zero']:.2f} against {curve['bound']:.1f}" for curve in curves)
        + " for n = 8, 32, 128, 512."
    )
    return Result(finding, claims, {"curves": curves})


def _squared_norm(w: float, n: int) -> Tensor:
    R = resolvent(1j * w, n)
    return torch.linalg.eigvalsh(R.mH @ R)[-1]


def bound(n: int) -> float:
    """The paper's bound for the squared norm of the resolvent on the imaginary axis."""
    return 2 * math.log(n) + 4


def certified(n: int) -> float:
    """The supremum of the norm, from the dense matrix alone: the distance of (A, I, I, 0) from the zero system."""
    A, _ = hippo.legs(n)
    eye = torch.eye(n, dtype=torch.float64)
    return linf_distance(DenseSystem(A, eye, eye), DenseSystem(A, eye, 0 * eye)).value


EXPERIMENT = Experiment(
    title="The resolvent of the HiPPO matrix is small on the imaginary axis",
    source="Theorem 3, Appendix H",
    paper="||(sI - A_H)^-1||^2 is at most 2 ln n + 4 for every s on the imaginary axis; this is what makes PTD safe.",
    run=run,
)
