"""Section 5.3: how large should the perturbation be? The paper's curve, and the controls that it leaves out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from wellposed.errors import RecordError
from wellposed.experiments._ablated import GAMMAS, LEGT, RANDOM, SCALE, Start, order, random_ones
from wellposed.experiments._ablation_findings import best_size, of_accuracy, of_condition, responses
from wellposed.experiments._campaign import Campaign, Job
from wellposed.experiments._experiment import Experiment, Result
from wellposed.experiments._fitted import STATES, fitted_model, toy_waves
from wellposed.experiments._measured import Measured, TimeIsUp, rounded
from wellposed.experiments._noise_measures import AMPLITUDE, UnderNoise
from wellposed.experiments._run_facts import described, summed, unfinished
from wellposed.experiments.certificates import FORMS, certify
from wellposed.presets import preset
from wellposed.records import Claim
from wellposed.train import RunResult
from wellposed.train._splits import load_split

QUICK_AMPLITUDE = 0.3
_QUICK_GAMMAS = GAMMAS[2:]
"""Smaller weights take longer to minimise: six seconds each."""
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
    claims, words = of_condition(data)
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
    """sCIFAR with all parameters learning."""
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
    _certify(campaign, jobs)
    epochs, usual = jobs[0].config.epochs, preset(_PRESET).epochs
    data: dict[str, Any] = {"form": "full", "n": n, "amplitude": AMPLITUDE, "epochs": epochs, "usual_epochs": usual}
    data |= summed(described(campaign, jobs))
    points = [_known(campaign, job) for job in jobs]
    data["points"] = [point for point in points if point is not None]
    data["missing"] = [job.name for job, point in zip(jobs, points, strict=True) if point is None]
    data["random"] = _random(data["points"], n)
    claims, words = of_condition(data)
    claims += of_accuracy(data["points"])
    words = _how_long(epochs, usual, len({point["seed"] for point in data["points"]})) + words
    words += best_size(data["points"]) + responses(data["points"])
    return Result(words + unfinished(data["missing"], len(jobs)), claims, data)


def _how_long(epochs: int, usual: int, seeds: int) -> str:
    if not seeds:
        return ""
    seeds_used = "one seed" if seeds == 1 else f"{seeds} seeds"
    return f"Trained for {epochs} epochs{'' if epochs == usual else f', where the paper has {usual}'}, {seeds_used}. "


def _certify(campaign: Campaign, jobs: Sequence[Job]) -> None:
    """As ``certificates`` does: last, for it takes no GPU."""
    for job in filter(campaign.is_wanted, jobs):
        done = campaign.result(job)
        try:
            if done is not None:
                certify(done, campaign.measured(job))
        except TimeIsUp:
            return
        except RecordError as error:
            campaign.say(f"{job.name} cannot be measured: {error}")


def _known(campaign: Campaign, job: Job) -> dict[str, Any] | None:
    """What this slice or an earlier one has found of a run."""
    measured = campaign.measured(job)
    point = campaign.entry(job, "points", run=job.name) or _point(job, measured)
    certified = {when: measured.get(f"certificate {when}") for when in FORMS}
    if point is None or None in certified.values():
        return point
    largest = {when: max(found["layers"], key=lambda layer: layer["value"]) for when, found in certified.items()}
    return {**point, "response": largest}


def _point(job: Job, measured: Measured) -> dict[str, Any] | None:
    start, clean, noisy = (measured.get(name) for name in ("start", "clean", "layer_noise"))
    if noisy is None:
        return None
    return {**start, "run": job.name, "seed": job.config.seed, "accuracy": clean, "noisy": noisy}


def _random(points: Sequence[dict[str, Any]], n: int) -> list[dict[str, float]]:
    """Gaussian perturbations of the sizes that gamma has given, most of which no model can start from."""
    return rounded(list(random_ones(sorted({p["rel"] for p in points if p["kind"] == "gamma"}), n)))


def _lost(points: Sequence[dict[str, Any]], kind: str) -> list[float]:
    return [100 * (p["accuracy"] - p["noisy"]) for p in points if p["kind"] == kind]


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
