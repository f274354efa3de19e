"""Whether a run that a record tells of gives the same again.

    python benchmarks/rerun.py results/robustness-full.json scifar-s4d-seed1 --data DIR --record results/rerun-h200.json

The config is made from what the record says of the run, its preset, seed, epochs and precision, and has to have the
fingerprint that stands there: where a preset has changed since, the script says so and trains nothing. The oldest lines
have none, of which the output tells. The test accuracy is that of the epoch chosen on validation, then and now.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, get_args

from wellposed import presets
from wellposed._files import check_file, check_folder, write_whole
from wellposed.errors import WellposedError
from wellposed.experiments import run_full, save_record
from wellposed.experiments._campaign import Campaign, Job
from wellposed.presets._fingerprint import fingerprint
from wellposed.records import Record, load_record, provenance
from wellposed.train import run
from wellposed.train._config import Precision

BAR = 0.3
"""Points of accuracy that the two may be apart."""


def finished_line(path: Path, record: Record, name: str) -> dict[str, Any]:
    """What the record says of a finished run that tells classes."""
    if not isinstance(record.data.get("runs"), list):
        raise SystemExit(f"{path} is no record of trained runs: name one that ends in -full")
    lines = {line["name"]: line for line in record.data["runs"] if line["finished"]}
    if name not in lines:
        raise SystemExit(f"{path} tells of no finished run {name}, but of {', '.join(lines)}")
    if "accuracy" not in lines[name]["test"]:
        raise SystemExit(f"{name} predicts numbers: there are no accuracies to compare")
    return lines[name]


def job_of(record: Record, line: dict[str, Any]) -> Job:
    """The run as its experiment would make it today."""
    campaign = Campaign(
        Path(),
        seeds=(line["seed"],),
        epochs=line["of_epochs"] if f"-{line['of_epochs']}epochs" in line["name"] else None,
        precision=next((word for word in get_args(Precision) if f"precision = {word}" in line["changed"]), None),
        tiny=record.data.get("tiny", False),
    )
    plain = line["preset"].removeprefix("tiny-")
    room = record.experiment.removesuffix("-full").replace("-", "_")
    experiment = importlib.import_module(f"wellposed.experiments.{room}")
    groups = experiment.groups(campaign) if hasattr(experiment, "groups") else [_of_the_table(campaign, plain, line)]
    jobs = {job.name: job for group in groups for job in group}
    if "start = " in line["changed"]:
        raise SystemExit(f"{line['name']} began with the weights of another run: make that one again first, by hand")
    if line["name"] not in jobs:
        raise SystemExit(f"{line['name']} is none of the runs that {record.experiment} makes: {', '.join(jobs)}")
    job = jobs[line["name"]]
    if line.get("config") not in (None, fingerprint(job.config)):
        raise SystemExit(f"{line['name']} was of another config than its preset {line['preset']} has now")
    return job


def _of_the_table(campaign: Campaign, plain: str, line: dict[str, Any]) -> list[Job]:
    """A run of the Long Range Arena, which any preset may be."""
    return [campaign.job(presets.preset(plain), line["seed"])]


def again(record: str, line: dict[str, Any], job: Job, data: Path | None, folder: Path, device: str) -> dict[str, Any]:
    """Train it once more, and put both accuracies side by side."""
    done = run(job.config, folder / job.name, data=data, device=device, progress=False, summary=False)
    made = json.loads((done.folder / "record.json").read_text(encoding="utf-8"))
    now = {
        "best_epoch": done.best_epoch,
        "accuracy": done.test_metrics["accuracy"],
        "commit": made["provenance"]["commit"],
    }
    then = {
        "best_epoch": line["best_epoch"],
        "accuracy": line["test"]["accuracy"],
        **{name: line[name] for name in ("commit", "date", "hardware", "torch")},
    }
    apart = 100 * abs(now["accuracy"] - then["accuracy"])
    sure = "" if "config" in line else "; its line has no fingerprint: its preset may have changed since"
    print(
        f"{job.name}: {then['accuracy']:.2%} then, {now['accuracy']:.2%} now, {apart:.2f} points apart{sure}",
        flush=True,
    )
    about = {key: line[key] for key in ("preset", "changed", "seed", "of_epochs")} | {"config": line.get("config")}
    return {"record": record, "run": job.name, **about, "then": then, "now": now, "points": apart, "met": apart <= BAR}


def tiny_record(folder: Path) -> tuple[Path, list[str]]:
    """Of a run of a few seconds, and its name, to try the script with."""
    record = run_full("lra", runs=folder / "runs", data=folder, device="cpu", tiny=True, only=["lra-listops-s5ptd"])
    return save_record(record, folder), [line["name"] for line in record.data["runs"]]


def main() -> None:
    """Train, compare, and with --record keep it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", nargs="?", type=Path, help="record of an experiment's full form; a tiny one without")
    parser.add_argument("name", nargs="*", help="of runs in it")
    parser.add_argument("--data", type=Path, help="the data folder")
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda")
    parser.add_argument("--record", type=Path, help="write the rows and their provenance to this JSON file")
    options = parser.parse_args()
    if options.path and not options.name:
        parser.error(f"name the runs of {options.path} that are to be made again")
    try:
        if options.record:
            check_file(options.record)
            check_folder(options.record.parent)
        _rerun(options)
    except WellposedError as error:
        raise SystemExit(f"rerun: {error}") from None


def _rerun(options: argparse.Namespace) -> None:
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as temporary:
        folder, path, names, data = Path(temporary), options.path, options.name, options.data
        if path is None:
            path, names = tiny_record(folder)
            data = folder
        record = load_record(path)
        lines = [finished_line(path, record, name) for name in names]
        todo = [(line, job_of(record, line)) for line in lines]  # all are found before the first is trained
        rows = []
        for line, job in todo:
            rows.append(again(path.name, line, job, data, folder, options.device))
            if options.record:
                _keep(options.record, rows, time.perf_counter() - start)


def _keep(path: Path, rows: list[dict[str, Any]], seconds: float) -> None:
    """After each run, so that a later one that fails takes none with it."""
    command = " ".join(["python benchmarks/rerun.py", *sys.argv[1:]])
    made = provenance(command, seconds, seed=rows[0]["seed"])
    write_whole(path, json.dumps({"bar": BAR, "rows": rows, "provenance": made}, indent=1) + "\n")


if __name__ == "__main__":
    main()
