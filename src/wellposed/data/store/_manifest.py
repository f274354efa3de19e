"""The file that says what lies beside it: what a prepared task was made from and as, array by array."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wellposed import __version__
from wellposed.data._dataset import Info
from wellposed.data._vocabulary import Vocabulary
from wellposed.data.store._fields import NAME
from wellposed.errors import DataError

if TYPE_CHECKING:
    from wellposed.data.tasks import Task

FILE = "manifest.json"
FORMAT = 2
"""Of the manifest and the arrays; it is part of the name of a task's folder."""
_ARRAY = re.compile(NAME + r"/(x|y|offsets|pairs)\.npy")


def made_as(task: Task) -> dict[str, Any]:
    """What it must say to be of this task."""
    made = {"format": FORMAT, "task": task.name, "version": task.version, "parameters": asdict(task)}
    return json.loads(json.dumps(made))  # as it comes back from the file: lists for tuples


def compose(task: Task, sources: dict[str, Any], arrays: dict[str, Any], info: Info) -> str:
    """Its text for a task that was just built."""
    made = made_as(task) | {"made_by": f"wellposed {__version__}", "info": asdict(info)}
    return text(made | {"sources": sources, "arrays": arrays})


def text(manifest: dict[str, Any]) -> str:
    """With a checksum of its own."""
    return json.dumps(manifest | {"checksum": _checksum(manifest)}, indent=1)


def _checksum(manifest: dict[str, Any]) -> str:
    """Of all but itself and what changes when files are copied."""
    covered = {key: value for key, value in manifest.items() if key != "checksum"}
    for kind in ("sources", "arrays"):
        covered[kind] = {name: recorded["checksum"] for name, recorded in manifest[kind].items()}
    return hashlib.sha256(json.dumps(covered, sort_keys=True).encode()).hexdigest()


def read(folder: Path) -> dict[str, Any]:
    """The manifest of a prepared task; an error where it is not as it was written."""
    path = folder / FILE
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
        if manifest["checksum"] != _checksum(manifest):
            raise ValueError("its checksum does not hold")
        _check(manifest)
        return manifest
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DataError(f"{path} cannot be read ({type(error).__name__}: {error})") from None


def _check(manifest: dict[str, Any]) -> None:
    """All that is read later is there: the checksum says that nobody changed it, not that this version wrote it."""
    arrays = manifest["arrays"]
    splits = {name.partition("/")[0] for name in arrays}
    whole = {f"{split}/{array}.npy" for split in splits for array in "xy"} <= arrays.keys()
    if not arrays or not whole or not all(_ARRAY.fullmatch(name) for name in arrays):
        raise ValueError("it names no arrays, or others than its own")
    recorded = [entry for kind in ("arrays", "sources") for entry in manifest[kind].values()]
    if not all(isinstance(entry["glance"], str) for entry in recorded):
        raise ValueError("it does not say when the files were written")
    if missing := {"format", "task", "version", "parameters"} - manifest.keys():
        raise ValueError(f"it lacks {', '.join(sorted(missing))}")
    info(manifest)


def info(manifest: dict[str, Any]) -> Info:
    """What the sequences are; JSON has lists for tuples."""
    entry = manifest["info"]
    fields: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in entry.items()}
    if words := entry["vocabulary"]:
        fields["vocabulary"] = Vocabulary(tuple(words["tokens"]), words["separator"])
    return Info(**fields)
