"""Prepared tasks on disk: found, built once however many ask, checked, rebuilt when stale or damaged."""

from __future__ import annotations

import errno
import json
import logging
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from wellposed._files import write_whole
from wellposed._locks import locked
from wellposed.data._dataset import SequenceDataset
from wellposed.data._rows import FixedRows, RaggedRows
from wellposed.data.store import _manifest
from wellposed.data.store._builder import Builder, Progress
from wellposed.data.store._fingerprint import exists, fingerprint, recognised
from wellposed.errors import DataError, RecordError, ShapeError, UnknownNameError, WellposedError

if TYPE_CHECKING:
    from wellposed.data.tasks import Task

_TRIES, _PAUSE = 50, 0.02  # a second in all, while another process moves its build into place
_log = logging.getLogger("wellposed.data")


def prepare(task: Task, root: Path, progress: Progress | None = None, *, closely: bool = False) -> Path:
    """The folder of the prepared task, which is built first where it is missing, stale or damaged."""
    folder = task.folder(root)
    if (reason := why_not(task, root, closely=closely)) is None:
        return folder
    with _explained(root, reason if folder.exists() else None):
        folder.parent.mkdir(parents=True, exist_ok=True)
        with locked(folder.parent / f".{task.key}.lock", error=DataError):
            if (reason := why_not(task, root, closely=closely)) is not None:  # nobody built it meanwhile
                _log.log(logging.WARNING if folder.exists() else logging.INFO, "building %s: %s", folder, reason)
                _build(task, root, progress)
    return folder


def why_not(task: Task, root: Path, *, closely: bool = False) -> str | None:
    """Why the prepared task cannot be used, or ``None``: at a glance, or by all contents if ``closely``."""
    folder = task.folder(root)
    if not exists(folder):
        return "not prepared yet"
    try:
        manifest = _manifest.read(folder)
        for name, value in _manifest.made_as(task).items():
            if manifest[name] != value:
                return f"made with {name} {manifest[name]}, not {value}"
        return _changed(folder, manifest, root, closely)
    except (DataError, OSError) as error:
        return str(error)


def _changed(folder: Path, manifest: dict[str, Any], root: Path, closely: bool) -> str | None:
    """Sources that are no longer there do no harm: a prepared task can be carried elsewhere without them."""
    before = json.dumps(manifest)
    for kind, base in (("arrays", folder), ("sources", root)):
        for name, recorded in manifest[kind].items():
            present = exists(base / name)
            if not present and kind == "sources":
                continue
            current = recognised(base / name, recorded, closely=closely) if present else None
            if current is None:
                return f"{base / name} is {'damaged' if kind == 'arrays' else 'not what it was then'}"
            manifest[kind][name] = current
    if json.dumps(manifest) != before:  # files were copied: with their new times noted, a glance will do again
        _try_to_write(folder / _manifest.FILE, manifest)
    return None


def _try_to_write(path: Path, manifest: dict[str, Any]) -> None:
    try:
        write_whole(path, _manifest.text(manifest))
    except RecordError:
        _log.info("%s is read-only: its files are compared in full every time", path.parent)


def _build(task: Task, root: Path, progress: Progress | None) -> None:
    folder = task.folder(root)
    partial, scratch, old = (folder.with_name(f".{task.key}.{part}") for part in ("partial", f"v{task.version}", "old"))
    for leftover in folder.parent.glob(f".{task.key}.*"):
        if leftover != scratch and leftover.suffix != ".lock":
            _remove(leftover)
    try:
        sources = {path.relative_to(root).as_posix(): fingerprint(path) for path in _checked_sources(task, root)}
        scratch.mkdir(exist_ok=True)
        partial.mkdir()
        builder = Builder(root, partial, scratch, progress)
        info = task.build(builder)
        builder.check(info, task.name)
        (partial / _manifest.FILE).write_text(_manifest.compose(task, sources, builder.arrays, info))
        if folder.exists():
            folder.rename(old)  # a folder cannot be replaced in one step: readers try again in between
        partial.rename(folder)
    finally:
        _remove(partial)
        _remove(old)
        with suppress(OSError):  # parts that took long to make are kept
            scratch.rmdir()
    _remove(scratch)


def _remove(path: Path) -> None:
    shutil.rmtree(path, ignore_errors=True)
    with suppress(OSError):  # not a folder after all
        path.unlink()


def _checked_sources(task: Task, root: Path) -> list[Path]:
    sources = task.sources(root)
    if outside := [path for path in sources if not path.is_relative_to(root)]:
        raise DataError(f"{outside[0]} is not below {root}: sources must be, so that they can be found again")
    task.check(root)
    return sources


@contextmanager
def _explained(root: Path, damage: str | None) -> Iterator[None]:
    """What the operating system refuses, in words, and why it was asked."""
    why = "" if damage is None else f"{damage}; "
    try:
        yield
    except DataError as error:
        raise DataError(f"{why}{error}") from None
    except MemoryError as error:
        raise DataError(f"{why}this takes more memory than there is ({error}): ask for less") from None
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            free = shutil.disk_usage(root).free / 1e6
            raise DataError(
                f"{why}no room left below {root} ({free:.0f} MB free): make some, or give another root"
            ) from None
        where = f" {error.filename}" if error.filename else ""
        raise DataError(f"{why}cannot prepare below {root}:{where} {error.strerror or error}") from None


def read(folder: Path, split: str) -> SequenceDataset:
    """A split of a prepared task, memory-mapped; all of one build, though another may replace it meanwhile."""
    damage: WellposedError = DataError(f"{folder} is being replaced all the time: load it again")
    for _ in range(_TRIES):
        try:
            manifest = _manifest.read(folder)
            dataset = _read(folder, manifest, split)
            if _manifest.read(folder)["checksum"] == manifest["checksum"]:
                return dataset
        except (DataError, ShapeError) as error:  # arrays of two builds do not fit each other
            damage = error
            time.sleep(_PAUSE)
    raise damage


def splits(folder: Path) -> list[str]:
    """The splits of a prepared task, in the order they were written."""
    return _splits(_manifest.read(folder))


def _splits(manifest: dict[str, Any]) -> list[str]:
    return list(dict.fromkeys(name.partition("/")[0] for name in manifest["arrays"]))


def _read(folder: Path, manifest: dict[str, Any], split: str) -> SequenceDataset:
    if split not in _splits(manifest):
        raise UnknownNameError("split", split, _splits(manifest))
    arrays = {Path(n).stem: _mapped(folder / n) for n in manifest["arrays"] if n.startswith(f"{split}/")}
    x, offsets = arrays["x"], arrays.get("offsets")
    rows = FixedRows(x) if offsets is None else RaggedRows(x, offsets)
    return SequenceDataset(_manifest.info(manifest), split, rows, arrays["y"], arrays.get("pairs"))


def _mapped(path: Path) -> Tensor:
    try:
        # Copy on write: PyTorch wants arrays it may write to, and the file stays as it is.
        return torch.from_numpy(np.load(path, mmap_mode="c", allow_pickle=False))
    except (OSError, ValueError, EOFError) as error:
        raise DataError(f"{path} cannot be read ({error}): delete {path.parents[1]} to have it built anew") from None
