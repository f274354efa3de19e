"""What a record says of the runs behind it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from wellposed.errors import UnknownNameError
from wellposed.experiments._measured import rounded
from wellposed.experiments._training import CARD
from wellposed.presets import fields_of, preset
from wellposed.train import DataConfig, RunConfig
from wellposed.train._folder import FREE
from wellposed.train._sweep_result import reason

if TYPE_CHECKING:
    from wellposed.experiments._campaign import Campaign, Job

_ASIDE = (*FREE, "seed")
"""Fields that a run has of itself, whatever its preset."""


def described(campaign: Campaign, jobs: Iterable[Job]) -> list[dict[str, Any]]:
    """Where the numbers of each run come from, and how far it has come, here or in an earlier record."""
    return [campaign.recorded(job) or _described(campaign, job) for job in jobs]


def _described(campaign: Campaign, job: Job) -> dict[str, Any]:
    done = campaign.result(job)
    about: dict[str, Any] = {
        "name": job.name,
        "preset": job.config.name,
        "changed": changed(job.config),
        "config": fingerprint(job.config),
        "preset_config": preset_fingerprint(job.config.name),
        "note": job.config.note,
        "seed": job.config.seed,
        "epochs": 0 if done is None else done.epoch,
        "of_epochs": job.config.epochs,
        "finished": done is not None and done.finished,
    }
    if failed := reason(campaign.runs / job.name)[0]:
        about["failed"] = failed
    path = campaign.runs / job.name / "record.json"
    if done is None or not path.exists():
        return about
    record = json.loads(path.read_text(encoding="utf-8"))
    data, made = record["data"], record["provenance"]
    return about | {
        "best_epoch": data["best_epoch"],
        "test": rounded(data["test"]),
        "parameters": data["parameters"],
        "run_minutes": data["device_minutes"],
        "device_minutes": campaign.measured(job).get(CARD) or data["device_minutes"],
        "commit": made["commit"],
        "date": made["date"],
        "hardware": made["hardware"]["gpu"] or made["hardware"]["cpu"],
        "torch": made["versions"]["torch"],
    }


def fingerprint(config: RunConfig) -> str:
    """The same for runs that learn the same but for their seed: presets may change after a record is made.

    Of what a config says beyond the defaults: a field that is new to the library leaves older runs what they were.
    """
    usual = dict(fields_of(RunConfig(data=DataConfig(task=config.data.task))))
    own = ((name, value) for name, value in fields_of(config) if name not in _ASIDE)
    fields = sorted((name, value) for name, value in own if usual.get(name) != value or name == "data.task")
    return hashlib.sha256(json.dumps(fields).encode()).hexdigest()[:12]


def preset_fingerprint(name: str) -> str | None:
    """Of a preset as it is now; none where a run is named otherwise."""
    try:
        return fingerprint(preset(name))
    except UnknownNameError:
        return None


def changed(config: RunConfig) -> str:
    """Where a run departs from the preset it is named after."""
    try:
        usual = dict(fields_of(preset(config.name)))
    except UnknownNameError:
        return "not a preset"
    fields = dict(fields_of(config))
    names = [name for name in {**usual, **fields} if name not in _ASIDE and usual.get(name) != fields.get(name)]
    return ", ".join(f"{name} = {fields.get(name, 'none')}" for name in names)


def summed(about: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What all runs together took, and which are still to come."""
    missing = [run["name"] for run in about if not run["finished"]]
    minutes = round(sum(run.get("device_minutes", 0.0) for run in about), 2)
    return {"runs": list(about), "device_minutes": minutes, "missing": missing}


def unfinished(missing: Sequence[str], total: int) -> str:
    """A sentence for the finding of a record that is not complete."""
    if not missing:
        return ""
    named = ", ".join(missing[:4]) + (f" and {len(missing) - 4} more" if len(missing) > 4 else "")
    return f" Not complete: {len(missing)} of {total} runs are not finished or not measured yet ({named})."
