"""Section 5.3: how large should the perturbation be? The paper's curve, and the controls that it leaves out."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from statistics import mean
from typing import Any

from wellposed.experiments._ablated import GAMMAS, LEGT, RANDOM, SCALE, Start, order, random_ones
from wellposed.experiments._campaign import Campaign, Job
from wellposed.experiments._experiment import Experiment, Result
from wellposed.experiments._fitted import STATES, fitted_model, toy_waves
from wellposed.experiments._measured import Measured, rounded
from wellposed.experiments._noise_measures import AMPLITUDE, UnderNoise
from wellposed.experiments._run_facts import described, summed, unfinished
from wellposed.presets import preset
from wellposed.records import Claim
from wellposed.train import RunResult
from wellposed.train._splits import load_split

QUICK_AMPLITUDE = 0.3
_QUICK_GAMMAS = GAMMAS[2:]
"""Smaller weights take longer to minimise: six seconds each."""
_STEEPEST, _FLATTEST = -1.0, -0.75
_SIZES = 10
"""That tell how accuracy goes with the size."""
_PRESET = "scifar-ablation-0.1"


def run(track: Callable, seed: int) -> Result:
    """Condition numbers as they are; of models only the head is fitted, on waves of ten frequencies."""
    train, test = toy_waves(seed)
    starts = [Start("gamma", k) for k in _QUICK_GAMMAS] + [Start("random", k) for k in RANDOM]
    starts += [Start("legt", k) for k in LEGT] + [Start("s4d"), Start("s4")]
    points = []
    for start in track(starts):
        options: dict[str, Any] = {"hippo": "legt"} if start.kind == "legt" else {}
        options |= {} if start.layer != "s4ptd" else {"perturbation": start.perturbation(STATES)}
        seen = UnderNoise(fitted_model(start.layer, SCALE, seed, train, options), test, device="cpu", count=None)
        found = {"seed": seed, "accuracy": seen.clean, "noisy": seen.layer(QUICK_AMPLITUDE).accuracy}
        points.append(rounded(start.described(STATES)) | found)
    data = {"form": "quick", "n": STATES, "amplitude": QUICK_AMPLITUDE, "points": points, "missing": []}
    data["random"] = _random(points, STATES)
    claims, words = _judged(data)
    lost = {kind: _lost(points, kind) for kind in ("s4d", "gamma")}
    at = f"under layer noise of {QUICK_AMPLITUDE:g} at the last spike"
    claims += [
        Claim(f"points S4D loses {at}", min(lost["s4d"]), 30.0, 0.0, "-", kind="at least"),
        Claim(f"points S4-PTD loses {at}, worst gamma", max(lost["gamma"]), 10.0, 0.0, "-", kind="at most"),
    ]
    how = (
        "Accuracies are of two blocks of 32 channels as they start, of which only the head is fitted, on waves of ten "
        "frequencies: they show that no size breaks a model, not which one trains best. "
    )
    return Result(how + words, claims, data)


def groups(campaign: Campaign) -> list[list[Job]]:
    """All starts with the first seed, then with the next."""
    return [[_job(campaign, start, seed) for start in some] for seed in campaign.seeds for some in order()]


def _job(campaign: Campaign, start: Start, seed: int) -> Job:
    """The preset of the ablation with another start; the controls train as long."""
    usual = preset(_PRESET)
    config = usual if start.layer == "s4ptd" else preset(f"scifar-{start.layer}-trained")
    options = {name: value for name, value in config.model["layer_options"].items() if name != "rel"}
    config = config.replace(
        model={**config.model, "layer_options": options | start.options}, epochs=usual.epochs, note=""
    )
    return campaign.job(config, seed, name=f"ablation-{start.name}")


def full(campaign: Campaign) -> Result:
    """sCIFAR with all parameters learning, for 200 epochs each."""
    order_of_jobs = groups(campaign)
    jobs = [job for group in order_of_jobs for job in group]
    campaign.check_covers(jobs)
    starts = [start for _ in campaign.seeds for some in order() for start in some]
    start_of = {job.name: start for job, start in zip(jobs, starts, strict=True)}
    n = jobs[0].config.model["layer_options"]["d_state"]

    @cache
    def test() -> Any:
        config = jobs[0].config.data
        return load_split(config, campaign.data, "test")

    def measure(done: RunResult, measured: Measured) -> None:
        measured("start", lambda: start_of[done.folder.name].described(n))

        @cache
        def seen() -> UnderNoise:
            return UnderNoise(done.model(), test(), device=campaign.device, count=None)

        measured("clean", lambda: seen().clean)
        measured("layer_noise", lambda: seen().layer().accuracy)

    campaign.work(order_of_jobs, measure)
    data: dict[str, Any] = {"form": "full", "n": n, "amplitude": AMPLITUDE}
    data |= summed(described(campaign, jobs))
    points = [campaign.entry(job, "points", run=job.name) or _point(job, campaign.measured(job)) for job in jobs]
    data["points"] = [point for point in points if point is not None]
    data["missing"] = [job.name for job, point in zip(jobs, points, strict=True) if point is None]
    data["random"] = _random(data["points"], n)
    claims, words = _judged(data)
    claims += _of_accuracy(data["points"])
    return Result(words + _best(data["points"]) + unfinished(data["missing"], len(jobs)), claims, data)


def _point(job: Job, measured: Measured) -> dict[str, Any] | None:
    start, clean, noisy = (measured.get(name) for name in ("start", "clean", "layer_noise"))
    if noisy is None:
        return None
    return {**start, "run": job.name, "seed": job.config.seed, "accuracy": clean, "noisy": noisy}


def _random(points: Sequence[dict[str, Any]], n: int) -> list[dict[str, float]]:
    """Gaussian perturbations of the sizes that gamma has given, most of which no model can start from."""
    return rounded(list(random_ones(sorted({p["rel"] for p in points if p["kind"] == "gamma"}), n)))


def slope(x: Sequence[float], y: Sequence[float]) -> float:
    """Of the line through the logarithms, by least squares.

    >>> round(slope([1.0, 10.0, 100.0], [5.0, 0.5, 0.05]), 6)
    -1.0
    """
    u, v = ([math.log(value) for value in values] for values in (x, y))
    centred = [each - mean(u) for each in u]
    return sum(a * b for a, b in zip(centred, v, strict=True)) / sum(a * a for a in centred)


def _judged(data: dict[str, Any]) -> tuple[list[Claim], str]:
    """Condition numbers against sizes: the slope, and random perturbations of the same sizes beside."""
    points = {p["name"]: p for p in data["points"]}
    mine = [p for p in points.values() if p["kind"] == "gamma"]
    if len({p["rel"] for p in mine}) < 3:
        return [], "Nothing is measured yet." if not mine else "Too few sizes are measured yet for a slope."
    claims, words = [], []
    for kind, name in (("gamma", "HiPPO-LegS"), ("legt", "HiPPO-LegT")):
        some = [p for p in points.values() if p["kind"] == kind]
        if len(some) < 3:
            continue
        found = slope([p["rel"] for p in some], [p["kappa"] for p in some])
        text = f"slope of log kappa against log ||E||/||A||, {name}"
        claims += [
            Claim(text, found, _FLATTEST, 0.0, "roughly -1", kind="at most"),
            Claim(f"{text}, from below", found, _STEEPEST, 0.0, "roughly -1", kind="at least"),
        ]
        words.append(f"{found:.3f} over {len(some)} sizes of {name}")
    random = data["random"]
    by_size = {p["rel"]: p["condition"] for p in mine}
    stable = [each for each in random if each["abscissa"] < 0]
    factors = [each["condition"] / _nearest(by_size, each["rel"]) for each in stable]
    if factors:
        text = "condition number of a random perturbation over that of the minimiser of the same size, smallest"
        claims.append(Claim(text, min(factors), 3.0, 0.0, "-", kind="at least"))
    unstable = len(random) - len(stable)
    finding = (
        f"kappa(V) falls with ||E||/||A|| as a power: {'; '.join(words)}. A random perturbation of the same size is "
        f"unstable for {unstable} of {len(random)} sizes, and elsewhere"
    )
    return claims, f"{finding} {min(factors):.0f} to {max(factors):.0f} times worse conditioned." if factors else words[
        0
    ]


def _nearest(values: dict[float, float], at: float) -> float:
    return values[min(values, key=lambda rel: abs(math.log(rel / at)))]


def _lost(points: Sequence[dict[str, Any]], kind: str) -> list[float]:
    return [100 * (p["accuracy"] - p["noisy"]) for p in points if p["kind"] == kind]


def _of_accuracy(points: Sequence[dict[str, Any]]) -> list[Claim]:
    """The paper's description of its curve, once there are as many sizes as it has."""
    mine = _means([p for p in points if p["kind"] == "gamma"], "rel")
    if len(mine) < _SIZES:
        return []
    best = max(mine, key=lambda rel: mine[rel])
    at = "||E||/||A|| at which S4-PTD is most accurate"
    lost = "points S4-PTD is less accurate than at best with the {} perturbation"
    least = 2.0  # three deviations of a difference between accuracies on 10,000 pictures are 1.7
    return [
        Claim(at, best, 0.01, 0.0, "between 0.01 and 1", kind="at least"),
        Claim(f"{at}, from above", best, 1.0, 0.0, "between 0.01 and 1", kind="at most"),
        *(
            Claim(lost.format(which), mine[best] - mine[rel], least, 0.0, "accuracy drops", kind="at least")
            for which, rel in (("smallest", min(mine)), ("largest", max(mine)))
        ),
    ]


def _means(points: Sequence[dict[str, Any]], by: str) -> dict[Any, float]:
    """Accuracies in per cent over the seeds."""
    found: dict[Any, list[float]] = {}
    for p in points:
        found.setdefault(p[by], []).append(100 * p["accuracy"])
    return {key: mean(values) for key, values in found.items()}


def _best(points: Sequence[dict[str, Any]]) -> str:
    """Accuracies beside the paper's description: best between 0.01 and 1, less on both sides."""
    mine = _means([p for p in points if p["kind"] == "gamma"], "rel")
    if not mine:
        return ""
    best, worst = (choose(mine, key=lambda rel: mine[rel]) for choose in (max, min))
    words = (
        f" Test accuracy is best, {mine[best]:.2f} %, at ||E||/||A|| = {best:.2g} and lowest, {mine[worst]:.2f} %, at "
        f"{worst:.2g}"
    )
    inside, outside = ([value for rel, value in mine.items() if (rel >= 0.01) == large] for large in (True, False))
    if inside and outside:
        words += f"; on average {mean(inside):.2f} % from 0.01 on and {mean(outside):.2f} % below"
    others = _means([p for p in points if p["kind"] != "gamma"], "name")
    listed = ", ".join(f"{name} {value:.2f}" for name, value in others.items())
    return words + (f". Controls: {listed} %." if others else ".")


EXPERIMENT = Experiment(
    title="How large the perturbation should be",
    source="Section 5.3, figure of accuracy and condition number against ||E||/||A_H||",
    paper=(
        "The condition number of the eigenvectors falls along a straight line with a slope of roughly -1. S4-PTD is "
        "best where ||E||/||A_H|| is between 0.01 and 1, and accuracy drops where the ratio is too small or too large."
    ),
    run=run,
    seed=0,
    full=full,
    seeds=(0,),
)
