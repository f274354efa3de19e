"""Runs that began with one another, as a table: what each was trained on, how long, and how far it came.

    python benchmarks/stages.py runs/easy runs/hard --record results/stages-pathfinder.json

A run that was stopped before its end has come as far as its best epoch on validation, with which the next one began.
With ``--after`` the runs follow those that a record tells of already, wherever these are now.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from wellposed._files import check_file, write_whole
from wellposed.errors import RecordError, WellposedError
from wellposed.experiments._measured import rounded
from wellposed.experiments._run_facts import changed
from wellposed.presets._fingerprint import fingerprint
from wellposed.train import load_run
from wellposed.train._folder import read_json


def stage(folder: Path) -> dict[str, Any]:
    """A line of the table, and the curve behind it."""
    run = load_run(folder)
    made = read_json(folder / "record.json")
    epochs = [row for row in run.rows() if row["kind"] == "epoch"]
    return rounded(
        {
            "name": folder.name,
            "preset": run.config.name,
            "changed": changed(run.config),
            "config": fingerprint(run.config),
            "seed": run.config.seed,
            "task": {"name": run.config.data.task, **run.config.data.options},
            "epochs": run.epoch,
            "of_epochs": run.config.epochs,
            "finished": run.finished,
            "sequences": made["data"]["steps"] * run.config.data.batch_size,
            "best_epoch": run.best_epoch,
            "val_accuracy": run.metrics.get("val", {}).get("accuracy"),
            "test_accuracy": run.test_metrics.get("accuracy"),
            "curve": {name: [row.get(name) for row in epochs] for name in ("train_accuracy", "val_accuracy")},
            "parameters": made["data"]["parameters"],
            "device_minutes": made["data"]["device_minutes"],
            "start": made["data"].get("start", {}).get("sha256"),
            "provenance": made["provenance"],
        }
    )


def _before(path: Path) -> list[dict[str, Any]]:
    """The rows of such a record."""
    rows = read_json(path).get("rows")
    if not isinstance(rows, list):
        raise RecordError(f"{path} tells of no stages: name a file that this script has written")
    return rows


def main() -> None:
    """Print, and with --record keep it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="*", type=Path, metavar="RUN", help="folders, the earliest first")
    parser.add_argument("--after", type=Path, metavar="RECORD", help="the runs before them, as this file has them")
    parser.add_argument("--record", type=Path, help="write the rows to this JSON file")
    options = parser.parse_args()
    try:
        if options.record:
            check_file(options.record)
        rows = _before(options.after) if options.after else []
        rows += [stage(folder) for folder in options.runs]
    except WellposedError as error:
        raise SystemExit(f"stages: {error}") from None
    for row in rows:
        told = {key: f"{row[key]:.2%}" for key in ("val_accuracy", "test_accuracy") if row[key] is not None}
        print(f"{row['name']}: {row['sequences']:,} sequences, {row['device_minutes']:.1f} minutes, {told}")
    if options.record and rows:
        write_whole(options.record, json.dumps({"rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
