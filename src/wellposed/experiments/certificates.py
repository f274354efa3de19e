"""Does training remove the spikes? The certified worst-case response of every layer, before training and after it."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import torch

from wellposed.errors import RecordError
from wellposed.experiments._campaign import Campaign, Job
from wellposed.experiments._experiment import Experiment, Result
from wellposed.experiments._measured import Measured, TimeIsUp, rounded
from wellposed.experiments._run_facts import described, one_of_each, summed, unfinished
from wellposed.nn import SequenceModel, StateSpaceLayer
from wellposed.presets import preset, tiny
from wellposed.records import Claim
from wellposed.train import RunConfig, RunResult, list_runs, run
from wellposed.train._folder import FINAL, INITIAL
from wellposed.train._response import Response, layer_response

FORMS = ("before", "after")
PAIRS = (("s4d", "s4ptd"), ("s5", "s5ptd"))
_NAMES = {"s4d": "S4D", "s4ptd": "S4-PTD", "s5": "S5", "s5ptd": "S5-PTD", "s4": "S4"}
_POINTS = 128
"""Of a curve."""
_QUICK_EPOCHS = 20
_RTOL = 1e-4


def certificate(model: SequenceModel, *, curve: bool) -> dict[str, Any]:
    """Of each state-space layer the largest response there is, a bound that nothing exceeds, and where it sits."""
    layers = [module for module in model.modules() if isinstance(module, StateSpaceLayer)]
    with torch.no_grad():
        found = [(layer, layer_response(layer)) for layer in layers]
    known = [(layer, response) for layer, response in found if response is not None]
    certified: dict[str, Any] = {"layers": [_peak(layer, response) for layer, response in known]}
    if curve and known:
        certified["curve"] = _curve([response for _, response in known])
    return rounded(certified)


def _peak(layer: StateSpaceLayer, response: Response) -> dict[str, Any]:
    peak = response.worst[0]
    has_system: Any = layer
    # A channel that is a system has a step, and frequencies in its own time; modes of S5 have steps, channels none.
    alone = bool(has_system.system().batch_shape)
    frequency = 2 * math.pi * peak.cycles / layer.dt.flatten()[peak.channel].item() if alone else None
    return {"value": peak.value, "upper": peak.upper, "cycles": peak.cycles, "frequency": frequency}


def _curve(responses: Sequence[Response]) -> dict[str, list[float]]:
    """The largest response of any layer, thinned out for a picture: in each stretch of frequencies the largest."""
    cycles = responses[0].cycles
    largest = torch.stack([response.largest for response in responses]).amax(0)
    step = math.ceil(len(cycles) / _POINTS)
    stretches = zip(cycles.split(step), largest.split(step), strict=True)
    picked = [(at[high.argmax()].item(), high.max().item()) for at, high in stretches]
    at, high = zip(*picked, strict=True)
    return {"cycles": list(at), "largest": list(high)}


def run_quick(track: Callable, seed: int) -> Result:
    """Two small models, trained for seconds on waves."""
    with tempfile.TemporaryDirectory() as folder:
        campaign = Campaign(Path(folder) / "runs", Path(folder), device="cpu", seeds=(seed,))
        campaign.runs.mkdir()
        for layer in track(PAIRS[0]):
            config = _small(preset(f"scifar-{layer}-trained")).replace(seed=seed)
            run(config, campaign.runs / layer, data=folder, device="cpu", progress=False, summary=False)
        data: dict[str, Any] = _certified(campaign, list_runs(campaign.runs)) | {"form": "quick"}
    claims, words = _judged(data["models"])
    how = (
        f"Two layers of 16 channels and 32 states, trained for {_QUICK_EPOCHS} epochs of 64 short waves: a small "
        "stand-in for the trained models of the full form. "
    )
    return Result(how + words, claims, data)


def _small(config: RunConfig) -> RunConfig:
    """Tiny, but with the states whose spikes are looked for, and with some steps to move them."""
    small = tiny(config)
    options = {**small.model["layer_options"], "d_state": config.model["layer_options"]["d_state"]}
    return small.replace(model={**small.model, "layer_options": options}, epochs=_QUICK_EPOCHS)


def full(campaign: Campaign) -> Result:
    """Every finished run of a folder, whichever experiment made it, and those that were certified before."""
    runs = [each for each in list_runs(campaign.runs) if campaign.concerns(each.config)]
    data: dict[str, Any] = _certified(campaign, runs) | {"form": "full"}
    claims, words = _judged(data["models"])
    return Result(words + unfinished(data["missing"], len(data["runs"])), claims, data)


def _certified(campaign: Campaign, done: Sequence[RunResult]) -> dict[str, Any]:
    """The data of the record."""
    jobs = [Job(each.folder.name, each.config) for each in done]
    models = []
    for job, each in zip(jobs, done, strict=True):
        measured = campaign.measured(job)
        try:
            certify(each, measured)
        except TimeIsUp:  # what is known from before still counts
            pass
        except RecordError as error:
            campaign.say(f"{job.name} cannot be measured: {error}")
        models.append(_assembled(each, measured))
    before = {run["name"]: run for run in campaign.before.get("runs", ())}
    found = before | {run["name"]: run for run in described(campaign, jobs)}
    lines = {line["name"]: line for line in one_of_each(found.values())}
    # A certificate is of the run that the line is on: one of the same name may have come in its place.
    same = [m for m in campaign.before.get("models", ()) if _same_config(before[m["name"]], found[m["name"]])]
    known = {m["name"]: m for m in (*same, *(m for m in models if m["after"] is not None)) if m["name"] in lines}
    data = summed(list(lines.values()))
    data["missing"] = [name for name in lines if name not in known]
    return data | {"models": list(known.values())}


def _same_config(then: dict[str, Any], now: dict[str, Any]) -> bool:
    """Of two lines of a name; the oldest have no fingerprint."""
    return then.get("config", now.get("config")) == now.get("config") and then["of_epochs"] == now["of_epochs"]


def certify(done: RunResult, measured: Measured) -> None:
    """Both certificates of a finished run whose weights are still there: records need less of a run than that."""
    if not done.finished or not all((done.folder / name / "config.json").exists() for name in (INITIAL, FINAL)):
        return
    curve = done.config.seed == 0  # one picture of each kind is enough
    measured("certificate before", lambda: certificate(done.model_at(0, "cpu"), curve=curve))
    measured("certificate after", lambda: certificate(done.model("cpu"), curve=curve))


def _assembled(done: RunResult, measured: Measured) -> dict[str, Any]:
    config = done.config
    options = config.model.get("layer_options", {})
    return {
        "name": done.folder.name,
        "layer": config.model.get("layer", "s4ptd"),
        "task": config.data.task,
        "scale": options.get("scale"),
        "learns": "C" if "A_imag" in config.optimizer.frozen else "all",
        "seed": config.seed,
        **{when: measured.get(f"certificate {when}") for when in FORMS},
    }


def sup(model: dict[str, Any], when: str) -> float:
    """Of all layers of a model."""
    return max((layer["value"] for layer in model[when]["layers"]), default=math.nan)


def _judged(models: Sequence[dict[str, Any]]) -> tuple[list[Claim], str]:
    """How far S4D stands above S4-PTD, on the same task with the same parameters learning."""
    gaps = [
        layer["upper"] / layer["value"] - 1 if layer["upper"] is not None else math.inf
        for model in models
        for when in FORMS
        for layer in model[when]["layers"]
    ]
    if not gaps:
        return [], "Nothing is certified yet."
    proved = [gap for gap in gaps if math.isfinite(gap)]
    text = "largest gap between a response that is attained and the bound that nothing exceeds"
    claims = [Claim(text, max(proved, default=math.nan), _RTOL, 0.01, "-", kind="at most")]
    words = [f"{len(proved)} of {len(gaps)} worst-case responses are certified to {_RTOL:g}."]
    # What training does is found out, not expected: before it, spikes are.
    if ratios := _ratios(models, PAIRS[0], "before"):
        text = "worst-case response of S4D over that of S4-PTD before training, smallest pair of runs"
        claims.append(Claim(text, min(ratios), 2.0, 0.0, "S4D has spikes, S4-PTD has none", kind="at least"))
    for pair in PAIRS:
        words += _told(models, pair)
    return claims, " ".join(words)


def _ratios(models: Sequence[dict[str, Any]], pair: tuple[str, str], when: str) -> list[float]:
    """Of runs that differ in nothing but the layer."""
    first, second = (
        {m["name"].replace(layer, "*", 1): sup(m, when) for m in models if m["layer"] == layer} for layer in pair
    )
    return [value / second[name] for name, value in first.items() if name in second]


def _told(models: Sequence[dict[str, Any]], pair: tuple[str, str]) -> list[str]:
    words = []
    for layer in pair:
        mine = [m for m in models if m["layer"] == layer]
        if mine:
            before, after = (median(sup(m, when) for m in mine) for when in FORMS)
            words.append(f"{_NAMES[layer]} {before:.3g} before training, {after:.3g} after")
    return [f"Largest response of any layer, median over runs: {'; '.join(words)}."] if words else []


EXPERIMENT = Experiment(
    title="What each layer can do at worst, before training and after it",
    source="Section 3.3 and Theorem 3, on trained models; not in the paper",
    paper=(
        "The transfer function of S4D has spikes, which S4 and S4-PTD have not. What becomes of them in training the "
        "paper does not say."
    ),
    run=run_quick,
    seed=0,
    full=full,
)
