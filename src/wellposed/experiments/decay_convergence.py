"""Appendix F, second experiment: on a decaying exponential S4D converges to S4 like 1/n."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise

import torch

from wellposed.experiments._experiment import Experiment, Result
from wellposed.experiments._round import digits
from wellposed.experiments._simulation import DT, STEPS, difference, outputs, slope
from wellposed.records import Claim
from wellposed.systems import spikes
from wellposed.systems.closed_forms import G_difference

CURVES = (3, 15, 75)
SIZES = (3, 5, 8, 11, 15, 22, 32, 50, 75)
EXPECTED = {3: 3.880, 8: 1.392, 15: 0.739, 32: 0.340, 75: 0.144}
_EVERY = 20  # a curve of 10^4 steps is stored at every 20th


def run(track: Callable) -> Result:
    """Errors over n, the three pairs of curves, and the same error in the frequency domain by Parseval."""
    u = torch.exp(-DT * torch.arange(STEPS, dtype=torch.float64))
    error = {n: difference(n, u) for n in track(SIZES)}
    curves = []
    for n in CURVES:
        dplr, diag = outputs(n, u)
        curves.append({"n": n, "dplr": digits(dplr[::_EVERY]), "diag": digits(diag[::_EVERY])})
    fitted = slope(list(error), list(error.values()), start=8)
    claims = [
        Claim(f"l2 error at n = {n}", error[n], value, 2e-3, "a point of the left panel")
        for n, value in EXPECTED.items()
    ]
    claims += [
        Claim("slope of log error against log n, n >= 8", fitted, -1.0, 0.05, "roughly -1"),
        Claim(
            "L2 norm of the difference at n = 15, simulated for 40 s, against the Parseval integral of Lemma 1",
            difference(15, torch.exp(-DT * torch.arange(40_000, dtype=torch.float64))) * math.sqrt(DT),
            parseval(15),
            1e-3,
            "Theorem 1 is proved with this integral",
        ),
    ]
    finding = f"The difference of the outputs falls like n^{fitted:.2f}, from {error[3]:.2f} to {error[75]:.3f}."
    data = {
        "n": list(error),
        "error": list(error.values()),
        "slope": fitted,
        "every": _EVERY,
        "dt": DT,
        "curves": curves,
    }
    return Result(finding, claims, data)


def parseval(n: int) -> float:
    """L2 norm over time of the difference of the outputs, from the frequency domain: sqrt(1/pi int |dG / (1+iw)|^2)."""
    from scipy.integrate import quad

    def density(w: float) -> float:
        return abs(complex(G_difference(1j * w, n))) ** 2 / (1 + w * w)

    found = spikes(n)
    edges = sorted({0.0, *(e for s in found for e in (s.frequency - 2, s.frequency, s.frequency + 2) if e > 0)})
    total = sum(quad(density, a, b, epsabs=0, epsrel=1e-9)[0] for a, b in pairwise(edges))
    return math.sqrt((total + quad(density, edges[-1], math.inf)[0]) / math.pi)


EXPERIMENT = Experiment(
    title="On a smooth input S4D converges to S4",
    source="Theorem 1, Appendix F, left panel of the convergence figure",
    paper="For the input exp(-t) the l2 norm of the difference of the two outputs falls with slope about -1 in n.",
    run=run,
)
