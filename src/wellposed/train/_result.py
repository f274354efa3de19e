"""What came out of a run, and the runs of a folder."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wellposed.errors import RecordError
from wellposed.nn import PairClassifier, SequenceClassifier, SequenceModel, SequenceRegressor
from wellposed.train._checkpoint import LAST, PREVIOUS, read_state
from wellposed.train._config import RunConfig
from wellposed.train._course import Course
from wellposed.train._folder import (
    CHECKPOINTS,
    CONFIG,
    FINAL,
    INITIAL,
    RECORD,
    epoch_folder,
    read_config,
    read_json,
)
from wellposed.train._logs import Row, read_rows

_MODELS: dict[str, type[SequenceModel]] = {
    model.__name__: model for model in (SequenceClassifier, SequenceRegressor, PairClassifier)
}


@dataclass(frozen=True)
class RunResult:
    """A run as it stands."""

    folder: Path
    config: RunConfig
    finished: bool
    epoch: int
    """Epochs done."""
    best_epoch: int | None
    """Counted from 1."""
    metrics: dict[str, dict[str, float]]
    """Of the best epoch, by split."""
    test_metrics: dict[str, float]
    """Of the best epoch on the test split, measured once the run was finished."""
    seconds: float
    """Of all slices together."""

    def model(self, device: Any = None) -> SequenceModel:
        """The trained model, in eval mode; of a run that is not finished the best so far."""
        return load_model(self.model_folder(), device)

    def model_folder(self) -> Path:
        """Where the weights of that model lie."""
        for name in (FINAL, "best"):
            if (self.folder / name / "config.json").exists():
                return self.folder / name
        if self.finished:
            raise RecordError(f"{self.folder} is finished, but its weights, in {FINAL}, are gone: bring a copy back")
        raise RecordError(f"{self.folder} has no model yet: it is written with a checkpoint after an evaluation")

    def model_at(self, epoch: int, device: Any = None) -> SequenceModel:
        """The model after an epoch of ``evaluation.keep``, and at 0 before training."""
        return load_model(epoch_folder(self.folder, epoch) if epoch else self.folder / INITIAL, device)

    def rows(self) -> list[Row]:
        """The metrics, one row every so many steps and one an epoch."""
        return list(read_rows(self.folder / "metrics.jsonl"))


def load_model(folder: Path, device: Any = None) -> SequenceModel:
    """The model saved in a folder, whichever kind it is."""
    kind = read_json(folder / "config.json").get("class")
    if kind not in _MODELS:
        raise RecordError(f"{folder / 'config.json'} describes a {kind}, which is none of {', '.join(_MODELS)}")
    return _MODELS[kind].from_pretrained(folder, device=device)


def load_run(folder: str | os.PathLike[str]) -> RunResult:
    """The run in a folder, finished or not; nothing in it is executed, and weights are read when asked for."""
    folder = Path(folder)
    if not (folder / CONFIG).exists():
        raise RecordError(f"{folder} is no folder of a run: it has no {CONFIG}")
    return result_of(folder, read_config(folder), _course(folder))


def result_of(folder: Path, config: RunConfig, course: Course) -> RunResult:
    """The same from what is at hand."""
    return RunResult(
        folder, config, course.finished, course.epoch, course.best_epoch, course.best, course.test, course.seconds
    )


def _course(folder: Path) -> Course:
    """From the last checkpoint, which is never older than the record of a run that is not finished."""
    if is_finished(folder):
        return _recorded_course(folder / RECORD)
    problems = []
    for name in (LAST, PREVIOUS):
        path = folder / CHECKPOINTS / name
        if path.exists():
            try:
                return Course.from_dict(read_state(path)["course"])
            except RecordError as error:
                problems.append(str(error))
            except (KeyError, TypeError) as error:
                problems.append(f"{path} is from another version: {error}")
    if problems:
        raise RecordError("; ".join(problems))
    return Course()


def _recorded_course(path: Path) -> Course:
    found = read_json(path)
    try:
        values, seconds = found["data"], found["provenance"]["seconds"]
        same = {name: values[name] for name in ("best_epoch", "best", "test", "stopped", "finished")}
        return Course(step=values["steps"], epoch=values["epochs"], seconds=seconds, **same)
    except (KeyError, TypeError) as error:
        raise RecordError(f"{path} is damaged, or from another version: {error}") from None


def is_finished(folder: Path) -> bool:
    """Whether its record says so."""
    if not (folder / RECORD).exists():
        return False
    data = read_json(folder / RECORD).get("data")
    return isinstance(data, dict) and data.get("finished") is True


def list_runs(root: str | os.PathLike[str] = "runs") -> list[RunResult]:
    """All runs in a folder, by name; folders that hold none, or one that cannot be read, are passed over."""
    return runs_and_problems(root)[0]


def runs_and_problems(root: str | os.PathLike[str]) -> tuple[list[RunResult], list[str]]:
    """The same, and what is wrong with those that cannot be read."""
    folders = sorted(path for path in Path(root).iterdir() if (path / CONFIG).exists()) if Path(root).is_dir() else []
    found, problems = [], []
    for folder in folders:
        try:
            found.append(load_run(folder))
        except RecordError as error:
            problems.append(str(error))
    return found, problems
