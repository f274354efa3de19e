"""Our own accuracies of the presets, from the records that runs leave."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from wellposed.errors import RecordError, WellposedError
from wellposed.presets._describe import fields_of
from wellposed.presets._fingerprint import changes
from wellposed.presets._table import PRESETS, preset
from wellposed.train import RunConfig

_FREE = {"name", "note", "seed", "precision", "graph", "compile", "checkpoint_minutes", "data.eval_batch_size"}
"""Fields that another value of makes no other preset."""


def measured(results: Path) -> dict[str, str]:
    """For each preset that has been trained to the end: the accuracy on the test set, and what was set otherwise.

    Of runs as the preset has it the mean is taken; where there are none, the best of the others.
    """
    found: dict[str, list[tuple[float, str]]] = {}
    told: dict[tuple[str, str], tuple[str, float, str]] = {}
    for file in sorted(results.glob("*.json")):
        try:
            record = json.loads(file.read_text(encoding="utf-8"))
        except ValueError as error:
            raise RecordError(f"{file} is damaged: {error}") from None
        run = _finished(record)
        if run is not None:
            config, accuracy = run
            found.setdefault(config.name, []).append((100 * accuracy, _otherwise(config)))
        told |= _told(record)
    for name, accuracy, otherwise in told.values():
        found.setdefault(name, []).append((100 * accuracy, otherwise))
    return {name: _words(runs) for name, runs in found.items()}


def _finished(record: Any) -> tuple[RunConfig, float] | None:
    """Config and accuracy; nothing for a record of another kind, or of a run that goes on."""
    run = record.get("data") if isinstance(record, dict) else None
    if not isinstance(run, dict) or not run.get("finished") or "accuracy" not in (run.get("test") or {}):
        return None
    try:
        config = RunConfig.from_dict(run["config"])
    except (KeyError, WellposedError):  # of another version
        return None
    return (config, run["test"]["accuracy"]) if config.name in PRESETS else None


def _told(record: Any) -> dict[tuple[str, str], tuple[str, float, str]]:
    """Preset, accuracy and what was changed of the runs that the record of an experiment tells of.

    By their names and dates, for several experiments may tell of one run. Layers that start otherwise are other models,
    and a preset that has changed since is another preset.
    """
    data = record.get("data") if isinstance(record, dict) else None
    runs = data.get("runs", ()) if isinstance(data, dict) and data.get("form") == "full" else ()
    return {
        (run["name"], run["date"]): (run["preset"], run["test"]["accuracy"], changes(run))
        for run in runs
        if run["finished"] and run["preset"] in PRESETS and "accuracy" in run.get("test", {})
        if "model.layer_options" not in run["changed"]
    }


def _otherwise(config: RunConfig) -> str:
    usual = dict(fields_of(preset(config.name)))
    return ", ".join(f"{k} {v}" for k, v in fields_of(config) if k not in _FREE and usual.get(k) != v)


def _words(runs: list[tuple[float, str]]) -> str:
    exact = [accuracy for accuracy, otherwise in runs if not otherwise]
    if not exact:
        accuracy, otherwise = max(runs)
        return f"{accuracy:.2f} ({otherwise})"
    seeds = f" ({len(exact)} seeds)" if len(exact) > 1 else ""
    return f"{sum(exact) / len(exact):.2f}{seeds}"
