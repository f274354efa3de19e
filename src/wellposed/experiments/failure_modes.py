"""Section 3.4 and its appendix: S4D cannot tell waves of frequencies it has not seen, where S4 and S4-PTD can."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from statistics import median
from typing import Any

import torch

from wellposed.data import load
from wellposed.experiments._campaign import Campaign, Job
from wellposed.experiments._experiment import Experiment, Result
from wellposed.experiments._measured import Measured, rounded
from wellposed.experiments._predictions import predictions
from wellposed.experiments._run_facts import described, summed, unfinished
from wellposed.experiments._sinusoids import WAVES, ReadOut, drawn, fresh_layer
from wellposed.presets import preset
from wellposed.records import Claim
from wellposed.train import RunResult

PROBLEMS = ("extrap", "interp")
LAYERS = ("s4d", "s4ptd", "s4")
KEPT = (1, 2, 3, 5, 8, 12, 16, 20, 25, 30, 35, 40, 45, 50)
"""Epochs of the error curves."""
_PARTS = {"errors": "end", "maps": "map", "curves": "curve"}
"""Lists of the record, and the names of what is measured for them."""
QUICK_SEEDS = (0, 1, 2)
_GRID = (51, 11)
_WORDS = {"extrap": "extrapolation", "interp": "interpolation"}
# At least, at least, at most: S4D over S4-PTD in either problem, S4-PTD over S4. Full: what the paper's figures show in
# words; quick: what layers as they start must show on any machine.
_FULL_BARS = {"extrap": 50.0, "interp": 2.0, "s4": 3.0}
_QUICK_BARS = {"extrap": 10.0, "interp": 1.2, "s4": 1.5}


def run(track: Callable, seed: int) -> Result:
    """Layers as they start; only the read-out is fitted."""
    errors, maps = [], []
    axes = [torch.linspace(0, top, n, dtype=torch.float64) for top, n in zip((100, 1), _GRID, strict=True)]
    s, A = torch.meshgrid(*axes, indexing="ij")
    for problem, layer in track([(problem, layer) for problem in PROBLEMS for layer in LAYERS]):
        for number in QUICK_SEEDS:
            stream = torch.Generator().manual_seed(seed + number)
            told = ReadOut(fresh_layer(layer, seed + number), drawn(problem, True, WAVES, stream))
            found = {
                name: told.error(drawn(problem, name == "seen", WAVES // 4, stream)) for name in ("seen", "unseen")
            }
            errors.append({"problem": problem, "layer": layer, "seed": seed + number, **rounded(found)})
            if number == 0:
                predicted = told((s.flatten(), A.flatten())).view(_GRID)
                maps.append(_map(problem, layer, seed, s[:, 0].tolist(), A[0].tolist(), predicted.tolist()))
    data = {"form": "quick", "errors": errors, "maps": maps, "curves": [], "missing": []}
    claims, words = _judged(errors, _QUICK_BARS)
    how = (
        f"One layer of 32 channels and 16 states as it starts, in which only a linear read-out is fitted, on {WAVES} "
        "waves: a small stand-in for the trained models of the full form. "
    )
    return Result(how + words, claims, data)


def full(campaign: Campaign) -> Result:
    """Four blocks of 64 channels, trained for 50 epochs on 2000 waves."""
    groups = [
        [campaign.job(preset(f"sinusoids-{problem}-{layer}"), seed, keep=KEPT) for layer in LAYERS]
        for problem in PROBLEMS
        for seed in campaign.seeds
    ]
    jobs = [job for group in groups for job in group]
    campaign.check_covers(jobs)
    campaign.work(groups, lambda done, measured: _measure(campaign, done, measured))
    found = {part: [_known(campaign, job, part) for job in jobs] for part in _PARTS}
    data: dict[str, Any] = {"form": "full"}
    data |= {part: [each for each in some if each is not None] for part, some in found.items()}
    data["maps"] = [each for each in data["maps"] if each["seed"] == min(campaign.seeds)]
    data |= summed(described(campaign, jobs))
    data["missing"] = [job.name for job, curve in zip(jobs, found["curves"], strict=True) if curve is None]
    claims, words = _judged(data["errors"], _FULL_BARS)
    return Result(words + unfinished(data["missing"], len(jobs)), claims, data)


def _known(campaign: Campaign, job: Job, part: str) -> dict[str, Any] | None:
    """What was measured of a run, here or in an earlier slice, for one of the lists of the record."""
    about = {"problem": job.config.data.options["problem"], "layer": job.config.model["layer"], "seed": job.config.seed}
    here = campaign.measured(job).get(_PARTS[part])
    return campaign.entry(job, part, **about) or (None if here is None else about | here)


def _measure(campaign: Campaign, done: RunResult, measured: Measured) -> None:
    """The error at the end, over the plane, and over the epochs."""
    options = done.config.data.options
    splits = {name: load("sinusoids", campaign.data, name, **options) for name in ("seen", "unseen", "test")}

    def errors(epoch: int | None) -> dict[str, float]:
        model = done.model() if epoch is None else done.model_at(epoch)
        found = {}
        for name in ("seen", "unseen"):
            told = predictions(model, splits[name], device=campaign.device)
            found[name] = (told[:, 1] - splits[name].y[:, 1]).square().mean().item()
        return found

    measured("end", lambda: errors(None))

    def plane() -> dict[str, Any]:
        grid = tuple(options.get("grid", (51, 21)))
        s, A = splits["test"].y.double().unbind(1)
        told = predictions(done.model(), splits["test"], device=campaign.device)[:, 1].view(grid)
        scale = 100.0 if options.get("scaled") else 1.0
        found = _map("", "", 0, (scale * s.view(grid)[:, 0]).tolist(), A.view(grid)[0].tolist(), told.tolist())
        return {name: found[name] for name in ("s", "A", "predicted")}

    measured("map", plane)
    epochs = done.config.evaluation.keep
    measured("curve", lambda: {"epochs": list(epochs)} | _columns([errors(epoch) for epoch in epochs]))


def _columns(rows: Sequence[dict[str, float]]) -> dict[str, list[float]]:
    return {name: [row[name] for row in rows] for name in rows[0]}


def _map(
    problem: str, layer: str, seed: int, s: list[float], A: list[float], predicted: list[list[float]]
) -> dict[str, Any]:
    """To three digits, which a picture shows."""
    told = [[float(f"{value:.3g}") for value in row] for row in predicted]
    return {"problem": problem, "layer": layer, "seed": seed} | rounded({"s": s, "A": A}) | {"predicted": told}


def _judged(errors: Iterable[dict[str, Any]], bars: dict[str, float]) -> tuple[list[Claim], str]:
    """Claims on the medians over the seeds, as far as there are runs, and the same in words."""
    found: dict[tuple[str, str], list[float]] = {}
    for row in errors:
        found.setdefault((row["problem"], row["layer"]), []).append(row["unseen"])
    middle = {key: median(values) for key, values in found.items()}
    claims, words = [], []
    for problem in PROBLEMS:
        s4d, ptd, s4 = (middle.get((problem, layer)) for layer in LAYERS)
        name = _WORDS[problem]
        if s4d is None or ptd is None:
            continue
        much = "suffers from an extrapolation disaster" if problem == "extrap" else "interpolates much worse"
        text = f"error of S4D over that of S4-PTD on unseen frequencies, {name}"
        claims.append(Claim(text, s4d / ptd, bars[problem], 0.0, much, kind="at least"))
        spread = f"{min(found[problem, 's4d']):.1e} to {max(found[problem, 's4d']):.1e}"
        words.append(f"{name.capitalize()}: S4D errs {s4d:.1e} ({spread}), S4-PTD {ptd:.1e}")
        if s4 is not None:
            text = f"error of S4-PTD over that of S4 on unseen frequencies, {name}"
            claims.append(Claim(text, ptd / s4, bars["s4"], 0.0, "almost overlap", kind="at most"))
            words[-1] += f", S4 {s4:.1e}"
    seeds = max((len(values) for values in found.values()), default=0)
    about = f"Mean squared error of the amplitude on frequencies not seen, median of {seeds} seeds. "
    return claims, about + "; ".join(words) + "." if words else "Nothing is measured yet."


EXPERIMENT = Experiment(
    title="S4D cannot extrapolate in frequency, S4-PTD can",
    source="Section 3.4 and its appendix, figures of predicted amplitudes and of errors",
    paper=(
        "Trained on waves A sin(st) of some frequencies, all models tell the amplitude of those well; on frequencies "
        "not seen S4 and S4-PTD are far better. From s = 80 on S4D suffers from an extrapolation disaster: it tells "
        "amplitudes down to -4."
    ),
    run=run,
    seed=0,
    full=full,
)
