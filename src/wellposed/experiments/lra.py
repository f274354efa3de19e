"""Table "LRA": accuracies on the Long Range Arena, the paper's beside ours, for every preset that has been trained."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from wellposed.errors import UnknownNameError, WellposedError
from wellposed.experiments._campaign import Campaign, Job
from wellposed.experiments._experiment import Experiment, Result
from wellposed.experiments._lra_grid import claims_of_the_table, grid
from wellposed.experiments._lra_table import (
    OF_THE_PAPER,
    PUBLISHED,
    TASKS,
    as_text,
    claims_of,
    in_words,
    is_another_task,
    plain_name,
    table_rows,
)
from wellposed.experiments._measured import Measured, TimeIsUp
from wellposed.experiments._noise_measures import AMPLITUDE, UnderNoise
from wellposed.experiments._run_facts import described, one_of_each, summed, unfinished
from wellposed.experiments._shipped import shipped
from wellposed.nn import LAYERS
from wellposed.presets import PRESETS, estimate, preset
from wellposed.presets._fingerprint import BEFORE, changes
from wellposed.records import Claim, load_record
from wellposed.train import RunConfig, RunResult, list_runs
from wellposed.train._splits import load_split

ORDER = tuple(
    f"lra-{task}-{layer}"
    for task, layers in {
        "listops": ("s5ptd", "s4ptd", "s5", "s4d"),
        "text": ("s5ptd", "s4ptd", "s5", "s4d"),
        "image": ("s5ptd", "s4ptd"),
        "pathfinder": ("s5ptd", "s4ptd"),
        "pathx": ("s5ptd",),
    }.items()
    for layer in layers
)
"""What is trained unless told otherwise: the paper's models first, those they are compared with, the longest last."""
SAMPLE = 2000
"""Sequences to measure noise with."""
RESULTS = Path(__file__).parents[3] / "results"
"""Of a checkout; elsewhere there is no such folder."""


def run(track: Callable, seed: int) -> Result:
    """Parameters, counted; models that travel, on fresh data; what the records of a checkout know of trained ones."""
    counted = [_parameters(task, pair) for task, pair in track([(t, p) for t in TASKS for p in OF_THE_PAPER])]
    rows = table_rows(known_runs(RESULTS))
    data: dict[str, Any] = {"form": "quick", "parameters": counted, "rows": rows, "missing": []}
    data |= {"published": PUBLISHED, "grid": grid(rows), "table": as_text(rows)}
    # A block of two states is perturbed by too little to make a pair of its real eigenvalues: each is a mode.
    usual, small = ([row for row in counted if (row["block"] > 2) == large] for large in (True, False))
    claims = [
        Claim(
            f"largest relative difference in parameters between S4-PTD and S4D, S5-PTD and S5, {len(usual)} presets",
            max(abs(row["parameters"] / row["plain"] - 1) for row in usual),
            0.0,
            1e-3,
            "the same number of parameters",
            kind="absolute",
        )
    ]
    claims += claims_of_the_table()
    data["shipped"] = [model.measured(seed) for model in shipped()]
    claims += [_fresh(found) for found in data["shipped"]]
    trained = {row["preset"] for row in rows}
    words = f"{len(trained)} presets have been trained so far. " if trained else "No preset has been trained yet. "
    more = "; ".join(f"{row['preset']} has {row['parameters'] / row['plain'] - 1:.0%} more" for row in small)
    costs = (
        "A perturbation costs no parameter, unless blocks have two states, whose eigenvalues it leaves real, so that "
        f"each takes a mode: {more}."
    )
    fresh = "".join(
        f" {found['name']}, which travels with the library, tells {100 * found['clean']:.1f} % of {found['items']} "
        f"fresh sequences, {100 * found['layer_noise']:.1f} % under layer noise of {found['amplitude']:g}."
        for found in data["shipped"]
    )
    return Result(words + in_words(rows) + costs + fresh, claims, data)


def _fresh(found: dict[str, Any]) -> Claim:
    """Within what chance may do to so few sequences."""
    least = 100 * (found["card"] - 3 * found["deviation"])
    text = f"accuracy of {found['name']} on {found['items']} fresh sequences, per cent"
    published = PRESETS[found["name"]].published
    beside = "-" if published is None else f"{published:.2f}"
    return Claim(text, 100 * found["clean"], least, 0.0, beside, kind="at least")


def _parameters(task: str, layer: str) -> dict[str, Any]:
    """Of a preset, and of the layer that it perturbs in its place."""
    config = preset(f"lra-{task}-{layer}")
    plain = layer.removesuffix("ptd") if layer == "s5ptd" else "s4d"
    dropped = ("rel", "cond", "gamma", "method", "hippo", "perturbation") + (("scale",) if layer == "s5ptd" else ())
    options = {name: value for name, value in config.model["layer_options"].items() if name not in dropped}
    other = config.replace(model={**config.model, "layer": plain, "layer_options": options})
    return {
        "preset": config.name,
        "block": options["d_state"] // options.get("blocks", 1),
        "parameters": estimate(config).parameters,
        "plain": estimate(other).parameters,
    }


def known_runs(folder: Path) -> list[dict[str, Any]]:
    """The runs that the record of the full form tells of; of no meaning are those of tiny models."""
    path = folder / "lra-full.json"
    runs = load_record(path).data["runs"] if path.exists() else []
    return [run | {"changed": changes(run)} for run in runs if run["preset"] == plain_name(run["preset"])]


# --- the full form


def full(campaign: Campaign) -> Result:
    """The presets that are asked for, or all of ``ORDER``; the table is of all runs, earlier ones included."""
    wanted = campaign.only or ORDER
    for name in wanted:
        if name not in PRESETS or not name.startswith("lra-"):
            raise UnknownNameError("preset of the Long Range Arena", name, [n for n in PRESETS if n.startswith("lra-")])
    groups = [[campaign.job(preset(name), seed) for seed in campaign.seeds] for name in wanted]
    asked = [job for group in groups for job in group]
    campaign.work(groups, lambda done, measured: _measure(campaign, done, measured))
    _measure_others(campaign, [job for job in _found(campaign) if job not in asked])
    runs = _all_runs(campaign, asked)
    rows = table_rows(runs)
    finished = {plain_name(row["preset"]) for row in rows if not _is_other(row["changed"])}
    data: dict[str, Any] = {"form": "full", "rows": rows, "published": PUBLISHED}
    data |= {"grid": grid(rows), "table": as_text(rows)} | summed(runs)
    planned = [*dict.fromkeys((*wanted, *ORDER))]
    unmeasured = [run["name"] for run in runs if run["finished"] and "noise" not in run and _is_of_systems(run)]
    data["missing"] = [name for name in planned if name not in finished]
    words = in_words(rows) or "Nothing is finished yet. "
    cost = f"All runs together took {data['device_minutes']:.0f} minutes of the device."
    return Result(words + cost + _told(unmeasured) + unfinished(data["missing"], len(planned)), claims_of(rows), data)


def _is_other(changed: str) -> bool:
    """Whether a run leaves its preset to be trained: it was another one then, or another task."""
    return BEFORE in changed or is_another_task(changed)


def _measure_others(campaign: Campaign, jobs: Sequence[Job]) -> None:
    """Finished runs that somebody else has left here. They keep all their files, and none of them stops the rest."""
    for job in jobs:
        done = campaign.result(job)
        if done is None or not done.finished or (campaign.only and plain_name(job.config.name) not in campaign.only):
            continue
        try:
            _measure(campaign, done, campaign.measured(job))
        except TimeIsUp:
            return
        except WellposedError as error:
            campaign.say(f"{job.name} cannot be measured: {error}")


def _measure(campaign: Campaign, done: RunResult, measured: Measured) -> None:
    """What layer noise does; accuracies without it are in the record of the run."""

    @cache
    def seen() -> UnderNoise:
        config = done.config.data
        test = load_split(config, campaign.data, "test")
        return UnderNoise(done.model(), test, device=campaign.device, count=SAMPLE)

    if _resonates(done.config):
        measured("sample clean", lambda: seen().clean)
        measured("sample layer noise", lambda: seen().layer().accuracy)


def _resonates(config: RunConfig) -> bool:
    """Whether the layers are systems, which noise is made for."""
    return getattr(LAYERS[config.model.get("layer", "s4ptd")], "resonates", False)


def _told(unmeasured: Sequence[str]) -> str:
    return f" What noise does is not measured for {', '.join(unmeasured)}." if unmeasured else ""


def _is_of_systems(line: dict[str, Any]) -> bool:
    name = plain_name(line["preset"])
    return name in PRESETS and _resonates(preset(name))


def _all_runs(campaign: Campaign, jobs: Sequence[Job]) -> list[dict[str, Any]]:
    """Of this folder and of the table from before: what has come further.

    Of a run that is made anew, as its preset has changed, the earlier result stays until there is another.
    """
    here = {job.name: job for job in (*_found(campaign), *jobs)}
    found = {run["name"]: run | _noise(campaign, here[run["name"]]) for run in described(campaign, here.values())}
    ended = {name for name, run in found.items() if run["finished"]}
    told = campaign.before.get("runs", ())
    earlier = [run for run in told if run["name"] not in (ended if run["finished"] else found)]
    runs = [run for run in (*found.values(), *earlier) if run["epochs"] or "failed" in run]
    return one_of_each([run | {"changed": changes(run)} for run in runs])


def _found(campaign: Campaign) -> list[Job]:
    """The runs of this table in the folder, whoever began them."""
    runs = [run for run in list_runs(campaign.runs) if plain_name(run.config.name).startswith("lra-")]
    return [Job(run.folder.name, run.config) for run in runs if campaign.concerns(run.config)]


def _noise(campaign: Campaign, job: Job) -> dict[str, Any]:
    measured = campaign.measured(job)
    clean, noisy = (measured.get(f"sample {name}") for name in ("clean", "layer noise"))
    return {} if noisy is None else {"noise": {"amplitude": AMPLITUDE, "clean": clean, "layer": noisy}}


EXPERIMENT = Experiment(
    title="The Long Range Arena",
    source='Section 5.1, table "LRA"',
    paper=(
        "With as many parameters as S4D, S4-PTD outperforms it on all six tasks (86.58 on average against 84.89); "
        "S5-PTD matches S5 (87.61 against 87.46)."
    ),
    run=run,
    seed=7,  # of fresh data: others than those of the presets
    full=full,
    seeds=(0,),
)
