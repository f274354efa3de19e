"""What has come out of a sweep so far, and the file that says which runs belong to it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wellposed._files import write_whole
from wellposed.errors import RecordError
from wellposed.train._config import RunConfig
from wellposed.train._folder import CONFIG, FAILED, read_json
from wellposed.train._progress import duration
from wellposed.train._result import RunResult, load_run

SWEEP = "sweep.json"
_FORMAT = "wellposed-sweep-1"


@dataclass(frozen=True, eq=False)
class SweepResult(Mapping[str, RunResult]):
    """The runs of a sweep that have been begun, by name, in the order they were given."""

    folder: Path
    runs: dict[str, RunResult]
    failed: dict[str, str]
    """Why some did not go on."""
    left: tuple[str, ...]
    """Runs that the same call would go on with, or begin."""

    def __getitem__(self, name: str) -> RunResult:
        return self.runs[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.runs)

    def __len__(self) -> int:
        return len(self.runs)

    @property
    def finished(self) -> bool:
        """Whether there is nothing left to do: each run is finished, or has failed in a way that it would again."""
        return not self.left

    def rows(self) -> list[list[str]]:
        """A table: a head, and a row for every run."""
        names = [*self.runs, *(name for name in self.left if name not in self.runs)]
        return [["run", "epochs", "best", "val", "test", "time", ""], *map(self._row, names)]

    def table(self) -> str:
        """The same as text."""
        rows = self.rows()
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)

    def _row(self, name: str) -> list[str]:
        run = self.runs.get(name)
        # of long reasons the beginning: all of it is in the folder
        problem = f"failed: {self.failed[name].splitlines()[-1][:60]}" if name in self.failed else ""
        if run is None:
            return [name, "-", "-", "-", "-", "-", problem or "waiting"]
        return [
            name,
            f"{run.epoch}/{run.config.epochs}",
            "-" if run.best_epoch is None else str(run.best_epoch),
            score(run.metrics.get("val", {})),
            score(run.test_metrics),
            duration(run.seconds),
            problem or ("" if run.finished else "to be continued"),
        ]


def score(metrics: Mapping[str, float]) -> str:
    """The accuracy, or the loss where numbers are told.

    >>> score({"loss": 0.7, "accuracy": 0.5}), score({"loss": 0.123456})
    ('50.00%', '0.1235')
    """
    if "accuracy" in metrics:
        return f"{metrics['accuracy']:.2%}"
    return f"{metrics['loss']:.4g}" if "loss" in metrics else "-"


def load_sweep(folder: str | os.PathLike[str]) -> SweepResult:
    """The sweep in a folder, as it stands; nothing in it is executed."""
    folder = Path(folder)
    return result_of_sweep(folder, list(read_configs(folder)), {})


def result_of_sweep(folder: Path, names: list[str], failed: Mapping[str, str]) -> SweepResult:
    """The same of some of its runs; ``failed`` is what is known of failures, the rest is noted in their folders."""
    runs, unreadable = {}, {}
    for name in names:
        if (folder / name / CONFIG).exists():
            try:
                runs[name] = load_run(folder / name)
            except RecordError as error:
                unreadable[name] = str(error)
    open_ones = [name for name in names if name not in runs or not runs[name].finished]
    noted = {name: reason(folder / name) for name in open_ones}
    failures = {name: why for name in open_ones if (why := failed.get(name) or noted[name][0] or unreadable.get(name))}
    return SweepResult(folder, runs, failures, tuple(name for name in open_ones if noted[name][1]))


def list_sweeps(root: str | os.PathLike[str] = "runs") -> list[SweepResult]:
    """All sweeps in a folder, by name; damaged ones are passed over."""
    found = []
    for place in sorted(Path(root).iterdir()) if Path(root).is_dir() else ():
        if is_sweep(place):
            with suppress(RecordError):
                found.append(load_sweep(place))
    return found


def is_sweep(folder: Path) -> bool:
    """Whether a folder holds one."""
    return (folder / SWEEP).exists()


def read_configs(folder: Path) -> dict[str, RunConfig]:
    """The runs of a sweep."""
    if not is_sweep(folder):
        raise RecordError(f"{folder} is no folder of a sweep: it has no {SWEEP}")
    found = read_json(folder / SWEEP)
    try:
        if found["format"] != _FORMAT:
            raise ValueError(f"its format is {found['format']!r}")
        return {name: RunConfig.from_dict(values) for name, values in found["runs"].items()}
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise RecordError(f"{folder / SWEEP} is damaged, or from another version: {error}") from None


def write_configs(folder: Path, configs: Mapping[str, RunConfig]) -> None:
    """Note which runs belong to a sweep."""
    values: dict[str, Any] = {name: config.to_dict() for name, config in configs.items()}
    write_whole(folder / SWEEP, json.dumps({"format": _FORMAT, "runs": values}, indent=1) + "\n")


def note_failure(folder: Path, why: str, *, again: bool) -> None:
    """Leave in a run's folder why it did not go on, and whether that may be otherwise the next time."""
    if folder.exists():
        write_whole(folder / FAILED, json.dumps({"why": why, "again": again}, indent=1) + "\n")


def reason(folder: Path) -> tuple[str, bool]:
    """Why a run did not go on the last time, and whether to try again; an empty text where nothing is noted."""
    if not (folder / FAILED).exists():
        return "", True
    try:
        noted = read_json(folder / FAILED)
    except RecordError as error:
        return str(error), True
    return str(noted.get("why", "")), bool(noted.get("again", True))
