"""Appendix F, first experiment: a cosine at the spike makes S4D ring, and nothing else does."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from wellposed.experiments._experiment import Experiment, Result
from wellposed.experiments._round import digits
from wellposed.experiments._simulation import DT, outputs
from wellposed.records import Claim
from wellposed.systems import spikes

SIZE = 32
STEPS = 1000
FREQUENCIES = (200.0, 322.5, 325.43, 500.0)


def run(track: Callable) -> Result:
    """Outputs at every frequency, their peaks, and where the spike really is."""
    t = DT * torch.arange(STEPS, dtype=torch.float64)
    waves = []
    for s in track(FREQUENCIES):
        dplr, diag = outputs(SIZE, torch.cos(s * t))
        waves.append(
            {
                "s": s,
                "dplr": digits(dplr, 5),
                "diag": digits(diag, 5),
                "dplr_peak": dplr.abs().max().item(),
                "diag_peak": diag.abs().max().item(),
            }
        )
    spike = spikes(SIZE, last=1)[0].frequency
    warped = 2 / DT * math.atan(spike * DT / 2)
    ratio = {wave["s"]: wave["diag_peak"] / wave["dplr_peak"] for wave in waves}
    at = {wave["s"]: wave for wave in waves}
    claims = [
        Claim("peak of S4D's output at s = 322.5", at[322.5]["diag_peak"], 0.1775, 5e-4, "blows up (figure)"),
        Claim("peak of S4's output at s = 322.5", at[322.5]["dplr_peak"], 0.0025, 0.02, "small (figure)"),
        Claim("S4D's peak over S4's at s = 322.5", ratio[322.5], 70.0, 0.01, "blows up (figure)"),
        *(
            Claim(
                f"log10 of S4D's peak over S4's at s = {s:.0f}",
                math.log10(ratio[s]),
                0.0,
                0.5,
                "same order of magnitude",
                kind="absolute",
            )
            for s in (200.0, 500.0)
        ),
        Claim(
            "location of the last spike of |G_S4D| at n = 32",
            spike,
            325.4263,
            1e-6,
            "322.5",
            erratum=(
                "322.5 is where the simulation peaks, not the transfer function: the bilinear rule at dt = 0.001 moves "
                f"the spike from {spike:.2f} to (2/dt) atan(s dt/2) = {warped:.1f}"
            ),
        ),
    ]
    finding = (
        f"At s = 322.5 S4D answers {ratio[322.5]:.0f} times as strongly as S4, at 200 and 500 "
        f"{ratio[200.0]:.1f} and {ratio[500.0]:.1f} times. The spike itself sits at {spike:.2f}; the "
        f"simulation sees it at {warped:.1f}, and driven at 325.43 it already answers less ({ratio[325.43]:.0f} times)."
    )
    return Result(finding, claims, {"n": SIZE, "dt": DT, "waves": waves, "spike": spike, "warped": warped})


EXPERIMENT = Experiment(
    title="A cosine at the right frequency breaks S4D",
    source="Appendix F, figure of cosine inputs",
    paper=(
        "With n = 32 and a cosine of frequency s = 200 or 500 the two outputs are of the same order; at s = 322.5 "
        "the output of S4D blows up."
    ),
    run=run,
)
