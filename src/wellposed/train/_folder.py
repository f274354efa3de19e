"""What lies in a run's folder, and who may write there."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from wellposed._files import make_folder, write_whole
from wellposed._locks import locked
from wellposed.errors import ArgumentError, RecordError
from wellposed.train._checkpoint import ANEW
from wellposed.train._config import RunConfig

CONFIG, ENVIRONMENT, RECORD, CHECKPOINTS, FINAL = (
    "config.json",
    "environment.json",
    "record.json",
    "checkpoints",
    "final",
)
INITIAL, ANALYSIS, SUMMARY = "initial", "analysis.json", "summary.html"
START = "start.json"
"""Whose weights it began with, where they were not drawn."""
CARD = "card.json"
"""Beside a model that travels: how it was made."""
FAILED = "failed.json"
"""Why a run of a sweep did not go on."""
MEASURED = "measured.json"
"""What experiments have found out about its model."""
EPOCHS, TENSORBOARD = "epochs", "tensorboard"
_LEFT = (EPOCHS, TENSORBOARD, "best", "metrics.csv", "metrics.jsonl", "spectra.safetensors")
_OWN = (CONFIG, ENVIRONMENT, RECORD, CHECKPOINTS, FINAL, INITIAL, ANALYSIS, SUMMARY, START, FAILED, MEASURED, *_LEFT)
FREE = ("note", "name", "checkpoint_minutes", "graph", "compile", "evaluation.keep")
"""Fields that may change when a run is resumed: what is learnt does not depend on them."""


def default_folder(config: RunConfig) -> Path:
    """``runs/NAME``, with the seed if it is not 0."""
    name = config.name or f"{config.data.task}-{config.model.get('layer', 's4ptd')}"
    return Path("runs") / (f"{name}-seed{config.seed}" if config.seed else name)


def epoch_folder(folder: Path, epoch: int) -> Path:
    """Where the weights after an epoch stay, where ``evaluation.keep`` names it."""
    return folder / EPOCHS / f"{epoch:04d}"


def make_run_folder(folder: Path) -> None:
    """Create it, and the one it is in; a path that is mistyped further up is refused."""
    try:
        make_folder(folder.parent)
        make_folder(folder)
    except OSError as error:
        raise RecordError(f"cannot make {folder}: {error.strerror or error}") from None


def open_folder(folder: Path, config: RunConfig, *, resume: bool) -> None:
    """Make it ready for this run: a new one, one to go on with, or one to begin anew."""
    if not resume:
        clear(folder)
    elif (folder / CONFIG).exists():
        check_resumable(folder, config)
    elif names := _own_names(folder):
        anew = f", or {ANEW}" if _is_run(folder) else ""
        raise RecordError(f"{folder} has no {CONFIG}, but {names}, as runs have: choose another folder{anew}")
    write_whole(folder / CONFIG, json.dumps(config.to_dict(), indent=2) + "\n")
    make_folder(folder / CHECKPOINTS)


def clear(folder: Path) -> None:
    """Remove what a run has left there, and nothing else; what no run has made is refused before anything is lost."""
    if (names := _own_names(folder)) and not _is_run(folder):
        raise RecordError(f"{folder} holds {names}, but no run: choose another folder, or move these away yourself")
    for name in _OWN:
        path = folder / name
        try:
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
        except OSError as error:
            raise RecordError(f"cannot remove {path}: {error.strerror or error}") from None


def _own_names(folder: Path) -> str:
    """What is there under names that a run gives its files."""
    return ", ".join(sorted(path.name for path in folder.iterdir() if path.name in _OWN))


def _is_run(folder: Path) -> bool:
    """Whether a config of a run lies there, of whatever version, or the list of its slices."""
    for name, keys in ((CONFIG, {"data", "model", "optimizer"}), (ENVIRONMENT, {"slices"})):
        try:
            if keys <= read_json(folder / name).keys():
                return True
        except RecordError:
            continue
    return False


def read_config(folder: Path) -> RunConfig:
    """The config of the run in a folder."""
    values = read_json(folder / CONFIG)
    try:
        return RunConfig.from_dict(values)
    except (ArgumentError, KeyError, TypeError, AttributeError) as error:
        raise RecordError(f"{folder / CONFIG} is no config of this version: {error}") from None


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise RecordError(f"cannot read {path}: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        raise RecordError(f"{path} is damaged: {error}") from None
    if not isinstance(found, dict):
        raise RecordError(f"{path} is damaged: it holds no object")
    return found


def check_resumable(folder: Path, config: RunConfig, remedy: str = f"Choose another folder, or {ANEW}") -> None:
    """Refuse another config than that of the run in a folder, unless it never came to a checkpoint.

    Then there is nothing to go on from: data were missing, or the first step failed, and a field is put right.
    """
    before = read_config(folder)
    if (folder / RECORD).exists() or has_checkpoint(folder):
        _check_same(folder, before, config, remedy)


def has_checkpoint(folder: Path) -> bool:
    """Whether there is something to go on from."""
    return any((folder / CHECKPOINTS).glob("*.safetensors"))


def _check_same(folder: Path, before: RunConfig, now: RunConfig, remedy: str) -> None:
    """A run goes on with what it was begun with."""
    then, new = (flat(each.to_dict()) | {"start": each.start and start_name(each.start)} for each in (before, now))
    other = sorted(name for name in then.keys() | new.keys() if then.get(name) != new.get(name) and name not in FREE)
    if other:
        changes = ", ".join(f"{name} was {then.get(name)!r}, is {new.get(name)!r}" for name in other[:5])
        raise ArgumentError(f"{folder} holds a run of another config: {changes}. {remedy}")


def start_name(start: str) -> str:
    """Of the run or model that one starts from, wherever that lies: ``easy``, or ``easy/final``."""
    parts = Path(start).parts
    deep = 3 if parts[-2:-1] == (EPOCHS,) else 2 if parts[-1:] and parts[-1] in (FINAL, INITIAL, "best") else 1
    return "/".join(parts[-deep:])


def flat(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested values by their full names, with dots."""
    found = {}
    for name, value in values.items():
        full = f"{prefix}{name}"
        found |= flat(value, f"{full}.") if isinstance(value, dict) else {full: value}
    return found


@contextmanager
def only_one(folder: Path) -> Iterator[None]:
    """Refuse a second run in the same folder; a run that is killed lets go by itself."""
    with ExitStack() as held:
        try:
            held.enter_context(locked(folder / ".lock", wait=False))
        except BlockingIOError:
            raise RecordError(f"another run is at work in {folder}: wait for it, or choose another folder") from None
        yield
