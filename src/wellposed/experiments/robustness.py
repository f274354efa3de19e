"""Section 5.2: one wave breaks S4D and leaves S4-PTD alone; then what the paper does not draw, over all frequencies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from statistics import mean, median
from typing import Any

from wellposed.experiments._campaign import Campaign, Job
from wellposed.experiments._experiment import Experiment, Result
from wellposed.experiments._fitted import STATES, fitted_model, toy_waves
from wellposed.experiments._measured import Measured
from wellposed.experiments._noise_measures import (
    AMPLITUDE,
    AMPLITUDES,
    CYCLES,
    UnderNoise,
    frequencies,
    last_spike,
    worst,
)
from wellposed.experiments._run_facts import described, summed, unfinished
from wellposed.presets import preset
from wellposed.records import Claim
from wellposed.train import RunResult
from wellposed.train._splits import load_split

PAIRS = (("s4d", "s4ptd"), ("s5", "s5ptd"))
KEPT = (1, 2, 5, 10, 15, 20, 30, 40, 50)
SAMPLE, SAMPLE_BEFORE = 2000, 500
"""Images of the sweeps; of those before training, where accuracy is chance and only the change of scores tells."""
QUICK_AMPLITUDE = 0.3
QUICK_SEEDS = (0, 1, 2)
_QUICK_AMPLITUDES = (0.03, 0.1, 0.3, 1.0)
_QUICK_FREQUENCIES = 16


def run(track: Callable, seed: int) -> Result:
    """Small models as they start, on waves to be told apart; only their heads are fitted."""
    train, test = toy_waves(seed)
    models = []
    steps = [(layer, "s4", number) for layer in PAIRS[0] for number in QUICK_SEEDS]
    steps += [(layer, "paper", 0) for layer in PAIRS[0]]
    for layer, scale, number in track(steps):
        model = fitted_model(layer, scale, seed + number, train)
        seen = UnderNoise(model, test, device="cpu", count=None)
        swept = scale == "s4" and number == 0
        amplitudes = _QUICK_AMPLITUDES if swept else (QUICK_AMPLITUDE,)
        models.append(
            {
                "name": f"{layer}-{scale}-seed{seed + number}",
                "layer": layer,
                "scale": scale,
                "learns": "head",
                "seed": seed + number,
                "n": STATES,
                "clean": seen.clean,
                "amplitudes": _row(amplitudes, [seen.layer(a).accuracy for a in amplitudes], "amplitude"),
                "spectrum": _spectrum(seen, frequencies(STATES, _QUICK_FREQUENCIES)) if swept else None,
            }
        )
    data = {"form": "quick", "amplitude": QUICK_AMPLITUDE, "spike": last_spike(STATES), "models": models, "missing": []}
    claims, words = _judged(models, QUICK_AMPLITUDE, drop=30.0, calm=10.0, within=5.0)
    how = (
        "Two blocks of 32 channels and 32 states as they start, of which only the head is fitted, tell waves of ten "
        f"frequencies apart; the noise is {QUICK_AMPLITUDE:g} U, three times the paper's: a small stand-in for the "
        "trained models of the full form. "
    )
    return Result(how + words + _worst_of(models, QUICK_AMPLITUDE), claims, data)


def _spectrum(seen: UnderNoise, at: Sequence[float]) -> dict[str, list[float]]:
    found = [seen.layer(QUICK_AMPLITUDE, w) for w in at]
    return {"frequency": list(at), "accuracy": [f.accuracy for f in found], "change": [f.change for f in found]}


def _row(at: Sequence[float], accuracy: Sequence[float], name: str) -> dict[str, list[float]]:
    return {name: list(at), "accuracy": list(accuracy)}


# --- the full form


def groups(campaign: Campaign) -> list[list[Job]]:
    """The most telling first: both pairs for each seed, then where all parameters learn, then the other scale of B."""

    def job(name: str, seed: int) -> Job:
        return campaign.job(preset(name), seed, keep=KEPT)

    found = [[job(f"scifar-{layer}", seed) for layer in pair] for seed in campaign.seeds for pair in PAIRS]
    first = min(campaign.seeds)
    found += [[job(f"scifar-{layer}-trained", first) for layer in pair] for pair in PAIRS]
    return [*found, [_other_scale(campaign, layer, first) for layer in PAIRS[0]]]


def _other_scale(campaign: Campaign, layer: str, seed: int) -> Job:
    """B smaller by the square root of two, as the paper prints it."""
    config = preset(f"scifar-{layer}")
    options = {**config.model["layer_options"], "scale": "paper"}
    config = config.replace(model={**config.model, "layer_options": options})
    return campaign.job(config, seed, keep=KEPT, name=f"{config.name}-scale-paper")


def full(campaign: Campaign) -> Result:
    """sCIFAR, as the paper trains it."""
    order = groups(campaign)
    jobs = [job for group in order for job in group]
    campaign.check_covers(jobs)
    test = cache(lambda: load_test(campaign, order[0][0]))

    def epoch(done: RunResult, measured: Measured, number: int) -> None:
        _measure_epoch(campaign, done, measured, test, number)

    campaign.work(order, lambda done, measured: _measure(campaign, done, measured, test), epoch)
    models = [campaign.entry(job, "models", name=job.name) or _assembled(job, campaign.measured(job)) for job in jobs]
    data: dict[str, Any] = {
        "form": "full",
        "amplitude": AMPLITUDE,
        "spike": last_spike(_size(order[0][0])),
        "sample": SAMPLE,
        "kept": list(KEPT),
    }
    data |= summed(described(campaign, jobs))
    data["models"] = [model for model in models if model.get("clean") is not None]
    data["missing"] = [model["name"] for model in models if not model["complete"]]
    main = [m for m in data["models"] if m["learns"] == "C" and m["scale"] == "s4"]
    claims, words = _judged(main, AMPLITUDE, drop=30.0, calm=2.0, within=1.0)
    return Result(words + _worst_of(data["models"], AMPLITUDE) + unfinished(data["missing"], len(jobs)), claims, data)


def load_test(campaign: Campaign, job: Job) -> Any:
    """The test split that all runs share."""
    config = job.config.data
    return load_split(config, campaign.data, "test")


def _size(job_or_run: Job | RunResult) -> int:
    """States of a system: of S5 those of a block."""
    options = job_or_run.config.model["layer_options"]
    return options["d_state"] // options.get("blocks", 1)


def _measure(campaign: Campaign, done: RunResult, measured: Measured, test: Callable[[], Any]) -> None:
    """Number by number, so that a slice may end anywhere."""

    @cache
    def seen(epoch: int | None, count: int | None) -> UnderNoise:  # at the end, and before training
        model = done.model() if epoch is None else done.model_at(epoch)
        return UnderNoise(model, test(), device=campaign.device, count=count)

    def both(epoch: int | None, count: int, w: float) -> list[float]:
        found = seen(epoch, count).layer(AMPLITUDE, w)
        return [found.accuracy, found.change]

    measured("clean", lambda: seen(None, None).clean)
    measured("layer_noise", lambda: seen(None, None).layer().accuracy)
    measured("input_noise", lambda: seen(None, None).input().accuracy)
    for a in AMPLITUDES:
        measured(f"layer amplitude {a:g}", lambda a=a: seen(None, SAMPLE).layer(a).accuracy)
        measured(f"input amplitude {a:g}", lambda a=a: seen(None, SAMPLE).input(a).accuracy)
    for w in frequencies(_size(done)):
        measured(f"after {w:g}", lambda w=w: both(None, SAMPLE, w))
        measured(f"before {w:g}", lambda w=w: both(0, SAMPLE_BEFORE, w)[1])
    for c in CYCLES:
        measured(f"input cycles {c:g}", lambda c=c: seen(None, SAMPLE).input(cycles=c).accuracy)
    for epoch in done.config.evaluation.keep:
        _measure_epoch(campaign, done, measured, test, epoch)


_AT_EPOCHS = ("clean", "layer", "input", "train")


def _measure_epoch(
    campaign: Campaign, done: RunResult, measured: Measured, test: Callable[[], Any], epoch: int
) -> None:
    """Accuracies after an epoch, as the paper draws them; the last is the one in training."""

    def accuracies() -> list[float]:
        seen = UnderNoise(done.model_at(epoch), test(), device=campaign.device, count=SAMPLE)
        trained = {row["epoch"]: row["train_accuracy"] for row in done.rows() if row["kind"] == "epoch"}
        return [seen.clean, seen.layer().accuracy, seen.input().accuracy, trained[epoch]]

    measured(f"epoch {epoch}", accuracies)


def _assembled(job: Job, measured: Measured) -> dict[str, Any]:
    """All that is measured of a run, so far as it goes."""
    config, n = job.config, _size(job)
    options = config.model["layer_options"]
    at, epochs = frequencies(n), [e for e in config.evaluation.keep if measured.get(f"epoch {e}") is not None]
    found: dict[str, Any] = {
        "name": job.name,
        "layer": config.model["layer"],
        "scale": options.get("scale", "s4"),
        "seed": config.seed,
        "n": n,
        "learns": "C" if config.optimizer.frozen else "all",
        **{name: measured.get(name) for name in ("clean", "layer_noise", "input_noise")},
        "amplitudes": _swept(measured, AMPLITUDES, "amplitude", "layer amplitude"),
        "input_amplitudes": _swept(measured, AMPLITUDES, "amplitude", "input amplitude"),
        "input_spectrum": _swept(measured, CYCLES, "cycles", "input cycles"),
        "spectrum": None,
        "epochs": None,
        "complete": measured.get(f"epoch {config.epochs}") is not None,
    }
    if measured.get(f"before {at[-1]:g}") is not None:
        after = [measured.get(f"after {w:g}") for w in at]
        accuracy, change = ([pair[k] for pair in after] for k in (0, 1))
        before = [measured.get(f"before {w:g}") for w in at]
        found["spectrum"] = {"frequency": at, "accuracy": accuracy, "change": change, "change_before": before}
    if epochs:
        rows = [measured.get(f"epoch {e}") for e in epochs]
        columns = {name: [row[k] for row in rows] for k, name in enumerate(_AT_EPOCHS)}
        found["epochs"] = {"epoch": epochs, **columns}
    return found


def _swept(measured: Measured, at: Sequence[float], name: str, key: str) -> dict[str, list[float]] | None:
    values = [measured.get(f"{key} {x:g}") for x in at]
    return None if None in values else _row(at, values, name)


# --- what it comes to


def _judged(
    models: Sequence[dict[str, Any]], amplitude: float, *, drop: float, calm: float, within: float
) -> tuple[list[Claim], str]:
    """Claims on the S4 pair, in points, and the same in words."""
    clean, lost = {}, {}
    for layer in PAIRS[0]:
        mine = [m for m in models if m["layer"] == layer and m["scale"] == "s4" and _noisy(m, amplitude) is not None]
        if not mine:
            return [], "The S4 pair is not measured yet."
        clean[layer] = [100 * m["clean"] for m in mine]
        lost[layer] = [100 * (m["clean"] - _noisy(m, amplitude)) for m in mine]
    s4d, ptd = PAIRS[0]
    seeds = f"median of {min(len(lost[s4d]), len(lost[ptd]))} seeds"
    at = f"under layer noise of {amplitude:g} at the last spike"
    claims = [
        Claim(f"points S4D loses {at}, {seeds}", median(lost[s4d]), drop, 0.0, "does not generalize", kind="at least"),
        Claim(f"points S4-PTD loses {at}, {seeds}", median(lost[ptd]), calm, 0.0, "robust", kind="at most"),
        Claim(
            "points by which S4-PTD is below S4D without noise",
            mean(clean[s4d]) - mean(clean[ptd]),
            within,
            0.0,
            "both achieve high accuracies",
            kind="at most",
        ),
    ]
    words = "; ".join(
        f"{name} {mean(clean[layer]):.1f} % clean, {mean(clean[layer]) - mean(lost[layer]):.1f} % {at} "
        f"(loses {min(lost[layer]):.1f} to {max(lost[layer]):.1f} points)"
        for layer, name in ((s4d, "S4D"), (ptd, "S4-PTD"))
    )
    return claims, f"{words}, over {len(lost[s4d])} seeds."


def _noisy(model: dict[str, Any], amplitude: float) -> float | None:
    """Accuracy under layer noise at the last spike: on all test items where that was measured."""
    if model.get("layer_noise") is not None:
        return model["layer_noise"]
    swept = model["amplitudes"]
    return None if swept is None else swept["accuracy"][swept["amplitude"].index(amplitude)]


def _worst_of(models: Sequence[dict[str, Any]], amplitude: float) -> str:
    """Over all frequencies of the sweep, which nobody chose for S4D."""
    words = []
    for model in models:
        if model["spectrum"] is not None and model["seed"] == 0:
            low, at = worst(model["spectrum"])
            words.append(f"{model['name']} {100 * low:.1f} % at {at:g}")
    return f" Worst frequency of a sweep, layer noise of {amplitude:g}: {'; '.join(words)}." if words else ""


EXPERIMENT = Experiment(
    title="One wave breaks S4D and leaves S4-PTD calm",
    source="Section 5.2, figures of accuracies under noise",
    paper=(
        "On sequential CIFAR both models achieve high accuracies; contaminated by 10 % of noise cos(325.4 t), at a "
        "spike of S4D, S4D does not generalise to the test set and S4-PTD does."
    ),
    run=run,
    seed=0,
    full=full,
)
