"""Prepared tasks on disk: found, built once however many ask, checked, rebuilt when stale or damaged."""

from __future__ import annotations

import errno
import json
import logging
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from wellposed import __version__
from wellposed._files import write_whole
from wellposed.data._builder import Builder, Progress
from wellposed.data._dataset import Info, SequenceDataset
from wellposed.data._fingerprint import fingerprint, recognised
from wellposed.data._lock import locked
from wellposed.data._rows import FixedRows, RaggedRows
from wellposed.data._task import Task
from wellposed.data._vocabulary import Vocabulary
from wellposed.errors import DataError, RecordError, UnknownNameError

FORMAT = 1
"""Of the manifest and the arrays."""
State = Literal["ready", "absent", "stale"]
_log = logging.getLogger("wellposed.data")


def folder_of(task: Task, root: Path) -> Path:
    """Where the prepared task is, or will be."""
    return root / "prepared" / task.key


def prepare(task: Task, root: Path, progress: Progress | None = None, *, closely: bool = False) -> Path:
    """The folder of the prepared task, which is built first where it is missing, stale or damaged."""
    folder = folder_of(task, root)
    if why_not(task, root, closely=closely) is None:
        return folder
    with _explained(root):
        folder.parent.mkdir(parents=True, exist_ok=True)
        with locked(folder.parent / f".{task.key}.lock"):
            if (reason := why_not(task, root, closely=closely)) is not None:  # nobody built it meanwhile
                _log.log(logging.WARNING if folder.exists() else logging.INFO, "building %s: %s", folder, reason)
                _build(task, root, progress)
    return folder


def why_not(task: Task, root: Path, *, closely: bool = False) -> str | None:
    """Why the prepared task cannot be used, or ``None``: at a glance, or by all contents if ``closely``."""
    folder = folder_of(task, root)
    if not folder.exists():
        return "not prepared yet"
    try:
        manifest = read_manifest(folder)
    except DataError as error:
        return str(error)
    made_as = {"format": FORMAT, "task": task.name, "version": task.version, "parameters": _plain(asdict(task))}
    for name, value in made_as.items():
        if manifest[name] != value:
            return f"made with {name} {manifest[name]}, not {value}"
    try:
        return _changed(folder, manifest, root, closely)
    except DataError as error:
        return str(error)


def _changed(folder: Path, manifest: dict[str, Any], root: Path, closely: bool) -> str | None:
    """Sources that are no longer there do no harm: a prepared task can be carried elsewhere without them."""
    before = json.dumps(manifest)
    for kind, base in (("arrays", folder), ("sources", root)):
        for name, known in manifest[kind].items():
            there = (base / name).exists()
            if not there and kind == "sources":
                continue
            seen = recognised(base / name, known, closely=closely) if there else None
            if seen is None:
                return f"{base / name} is {'damaged' if kind == 'arrays' else 'not what it was then'}"
            manifest[kind][name] = seen
    if json.dumps(manifest) != before:  # files were copied: with their new times noted, a glance will do again
        _try_to_write(folder / "manifest.json", manifest)
    return None


def _try_to_write(path: Path, manifest: dict[str, Any]) -> None:
    try:
        write_whole(path, json.dumps(manifest, indent=1))
    except RecordError:
        _log.info("%s is read-only: its files are compared in full every time", path.parent)


def _build(task: Task, root: Path, progress: Progress | None) -> None:
    folder = folder_of(task, root)
    partial, scratch, old = (folder.with_name(f".{task.key}.{part}") for part in ("partial", f"v{task.version}", "old"))
    for leftover in (partial, old):
        shutil.rmtree(leftover, ignore_errors=True)
    try:
        sources = task.sources(root)
        if outside := [path for path in sources if not path.is_relative_to(root)]:
            raise DataError(f"{outside[0]} is not below {root}: sources must be, so that they can be found again")
        task.check(root)
        known = {path.relative_to(root).as_posix(): fingerprint(path) for path in sources}
        scratch.mkdir(exist_ok=True)
        partial.mkdir()
        builder = Builder(root, partial, scratch, progress)
        info = task.build(builder)
        builder.check(info)
        manifest = {"format": FORMAT, "task": task.name, "version": task.version, "parameters": asdict(task)}
        manifest |= {"made_by": f"wellposed {__version__}", "sources": known, "arrays": builder.arrays}
        (partial / "manifest.json").write_text(json.dumps(manifest | {"info": asdict(info)}, indent=1))
        if folder.exists():
            folder.rename(old)
        partial.rename(folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)
        with suppress(OSError):  # parts that took long to make are kept
            scratch.rmdir()
    shutil.rmtree(scratch, ignore_errors=True)


@contextmanager
def _explained(root: Path) -> Iterator[None]:
    """What the operating system refuses, in words."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            free = shutil.disk_usage(root).free / 1e6
            raise DataError(
                f"no room left below {root} ({free:.0f} MB free): make some, or give another root"
            ) from None
        where = f" {error.filename}" if error.filename else ""
        raise DataError(f"cannot prepare below {root}:{where} {error.strerror or error}") from None


def read_manifest(folder: Path) -> dict[str, Any]:
    """What stands beside the arrays."""
    path = folder / "manifest.json"
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
        kinds = {"format": int, "task": str, "version": int, "parameters": dict, "sources": dict, "arrays": dict}
        if not all(isinstance(manifest[name], kind) for name, kind in (kinds | {"info": dict}).items()):
            raise ValueError("an entry is not what it should be")
        return manifest
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path} cannot be read ({type(error).__name__}: {error})") from None


def read(folder: Path, split: str) -> SequenceDataset:
    """A split of a prepared task, memory-mapped."""
    manifest = read_manifest(folder)
    known = list(dict.fromkeys(name.partition("/")[0] for name in manifest["arrays"]))
    if split not in known:
        raise UnknownNameError("split", split, known)
    arrays = {Path(n).stem: _mapped(folder / n) for n in manifest["arrays"] if n.startswith(f"{split}/")}
    x, offsets = arrays["x"], arrays.get("offsets")
    rows = FixedRows(x) if offsets is None else RaggedRows(x, offsets)
    return SequenceDataset(_info(manifest["info"]), split, rows, arrays["y"], arrays.get("pairs"))


def _mapped(path: Path) -> Tensor:
    try:
        # Copy on write: PyTorch wants arrays it may write to, and the file stays as it is.
        return torch.from_numpy(np.load(path, mmap_mode="c", allow_pickle=False))
    except (OSError, ValueError, EOFError) as error:
        raise DataError(f"{path} cannot be read ({error}): delete {path.parents[1]} to have it built anew") from None


def _info(entry: dict[str, Any]) -> Info:
    """From JSON, where tuples are lists."""
    fields: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in entry.items()}
    if words := entry["vocabulary"]:
        fields["vocabulary"] = Vocabulary(tuple(words["tokens"]), words["separator"])
    return Info(**fields)


def _plain(value: Any) -> Any:
    """As it comes back from JSON."""
    return json.loads(json.dumps(value))
