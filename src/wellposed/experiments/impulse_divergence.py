"""Appendix F, third experiment: on a unit impulse S4D never converges."""

from __future__ import annotations

from collections.abc import Callable

import torch

from wellposed.experiments._experiment import Experiment, Result
from wellposed.experiments._round import digits
from wellposed.experiments._simulation import DT, STEPS, difference, outputs, slope
from wellposed.records import Claim

CURVES = (3, 15, 75)
SIZES = (3, 5, 8, 11, 15, 22, 32, 50, 75)  # from n = 100 on, the last spike lies beyond pi / dt
EXPECTED = {3: 0.00986, 8: 0.01100, 15: 0.01113, 32: 0.01117, 75: 0.01116}
_SHOWN = 400  # steps of a curve that are worth seeing


def run(track: Callable) -> Result:
    """Errors over n and the three pairs of curves."""
    u = torch.zeros(STEPS, dtype=torch.float64)
    u[0] = 1
    error = {n: difference(n, u) for n in track(SIZES)}
    curves, first = [], []
    for n in CURVES:
        dplr, diag = outputs(n, u)
        first.append(dplr)
        curves.append({"n": n, "dplr": digits(dplr[:_SHOWN]), "diag": digits(diag[:_SHOWN])})
    fitted = slope(list(error), list(error.values()), start=8)
    claims = [
        Claim(f"l2 error at n = {n}", error[n], value, 1e-3, "a point of the right panel")
        for n, value in EXPECTED.items()
    ]
    claims += [
        Claim("slope of log error against log n, n >= 8", fitted, 0.0, 0.02, "does not decay", kind="absolute"),
        Claim(
            "largest change of S4's output between n = 3 and 75, relative to its peak",
            ((torch.stack(first) - first[0]).abs().max() / first[0].abs().max()).item(),
            0.0,
            1e-5,
            "remains the same",
            kind="absolute",
        ),
    ]
    finding = (
        f"The difference of the outputs stays at {error[15]:.4f} to {error[75]:.4f}: slope {fitted:.3f}. "
        "S4's output does not change with n, S4D's oscillates around it ever faster."
    )
    data = {"n": list(error), "error": list(error.values()), "slope": fitted, "dt": DT, "curves": curves}
    return Result(finding, claims, data)


EXPERIMENT = Experiment(
    title="On an impulse S4D never converges to S4",
    source="Appendix F, right panel of the convergence figure",
    paper=(
        "For a unit impulse the difference of the two outputs does not decay with n: that of S4 stays the same, "
        "that of S4D becomes more oscillatory."
    ),
    run=run,
)
