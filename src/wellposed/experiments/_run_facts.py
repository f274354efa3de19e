"""What a record says of the runs behind it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from wellposed.errors import UnknownNameError
from wellposed.experiments._measured import rounded
from wellposed.experiments._training import card_minutes
from wellposed.presets import preset
from wellposed.presets._fingerprint import fingerprint, own_fields, preset_fingerprint
from wellposed.train import RunConfig
from wellposed.train._sweep_result import reason

if TYPE_CHECKING:
    from wellposed.experiments._campaign import Campaign, Job


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
    if not about["finished"] and (failed := reason(campaign.runs / job.name)[0]):
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
        "device_minutes": rounded(card_minutes(campaign, job, done.seconds)),
        "commit": made["commit"],
        "date": made["date"],
        "hardware": made["hardware"]["gpu"] or made["hardware"]["cpu"],
        "torch": made["versions"]["torch"],
    }


def changed(config: RunConfig) -> str:
    """Where a run departs from the preset it is named after."""
    try:
        usual = own_fields(preset(config.name))
    except UnknownNameError:
        return "not a preset"
    fields = own_fields(config)
    names = [name for name in {**usual, **fields} if usual.get(name) != fields.get(name)]
    return ", ".join(f"{name} = {fields.get(name, 'none')}" for name in names)


def one_of_each(lines: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Without copies of folders, which say of themselves the same run on the same day; the one furthest on stays."""
    found: dict[Any, dict[str, Any]] = {}
    for line in lines:
        same = tuple(line.get(name) for name in ("config", "seed", "commit", "date", "run_minutes"))
        key = line["name"] if None in same else same
        if key not in found or _how_far(line) > _how_far(found[key]):
            found[key] = line
    return list(found.values())


def _how_far(line: dict[str, Any]) -> tuple[bool, int]:
    return line["finished"], line["epochs"]


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
