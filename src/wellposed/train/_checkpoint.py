"""Checkpoints: tensors as safetensors, everything else as JSON in the same file; nothing in it is ever executed.

A checkpoint is written beside its place, brought to the disk, and moved there, so that whatever happens ``last`` or
``previous`` is whole. A digest tells damage.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from wellposed.errors import RecordError

FORMAT = "wellposed-checkpoint-1"
LAST, PREVIOUS = "last.safetensors", "previous.safetensors"
_TEMPORARY = ".writing-"
ANEW = "begin anew with resume=False (--fresh)"
"""What errors advise, in Python and on the command line."""


@dataclass(frozen=True)
class Checkpoint:
    """What a run goes on from."""

    tensors: dict[str, Tensor]
    state: dict[str, Any]
    """All that is no tensor, as JSON holds it."""

    def part(self, prefix: str) -> dict[str, Tensor]:
        """The tensors whose names begin so, by the rest of their names."""
        start = f"{prefix}."
        return {name.removeprefix(start): t for name, t in self.tensors.items() if name.startswith(start)}


def write_checkpoint(folder: Path, checkpoint: Checkpoint) -> int:
    """Put it in the place of ``last``, which becomes ``previous``; how many bytes it takes."""
    content = to_bytes(checkpoint)
    last = folder / LAST
    temporary = _written(folder, content, last)
    if last.exists():
        os.replace(last, folder / PREVIOUS)
    os.replace(temporary, last)
    sync_folder(folder)
    return len(content)


def to_bytes(checkpoint: Checkpoint) -> bytes:
    """The file: tensors are copied to the CPU first, one by one, as parts of one another they could not be written."""
    tensors = {name: t.detach().to("cpu", copy=True).contiguous() for name, t in checkpoint.tensors.items()}
    text = json.dumps(checkpoint.state, allow_nan=False)
    return save(tensors, {"format": FORMAT, "state": text, "sha256": _digest(tensors, text)})


def _digest(tensors: Mapping[str, Tensor], text: str) -> str:
    digest = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _written(folder: Path, content: bytes, place: Path) -> Path:
    """A temporary file with all of it, on the disk and not only on its way there."""
    temporary = folder / f"{_TEMPORARY}{os.getpid()}"
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise RecordError(
            f"cannot write {place}: {error.strerror or error}; it takes {len(content) / 1e6:.1f} MB, "
            f"{shutil.disk_usage(folder).free / 1e6:.1f} MB are free. What was written before is kept: make room and "
            "start the run again, which goes on from there"
        ) from None
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return temporary


def sync_folder(folder: Path) -> None:
    """Bring the names in a folder to the disk; a moved file could otherwise be lost with its new name."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sweep(folder: Path) -> None:
    """Remove what a run that was killed while writing has left."""
    for path in folder.glob(f"{_TEMPORARY}*"):
        path.unlink(missing_ok=True)


def read_checkpoint(path: Path) -> Checkpoint:
    """The checkpoint in a file, compared with its digest; a damaged one is refused by name."""
    try:
        with safe_open(path, "pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118, it is no mapping
    except FileNotFoundError:
        raise RecordError(f"there is no checkpoint {path}") from None
    except (OSError, SafetensorError, ValueError, RuntimeError) as error:
        raise RecordError(f"{path} is damaged, or no checkpoint: {error}") from None
    if metadata.get("format") != FORMAT:
        raise RecordError(f"{path} is no checkpoint of this library: its format is {metadata.get('format')!r}")
    text = metadata.get("state", "")
    if _digest(tensors, text) != metadata.get("sha256"):
        raise RecordError(f"{path} is damaged: its content does not fit its SHA-256")
    return Checkpoint(tensors, json.loads(text))


def read_state(path: Path) -> dict[str, Any]:
    """All that is no tensor, without reading those."""
    try:
        with safe_open(path, "pt") as file:
            metadata = file.metadata() or {}
        state = json.loads(metadata.get("state", "null"))
    except (OSError, SafetensorError, ValueError) as error:
        raise RecordError(f"{path} is damaged, or no checkpoint: {error}") from None
    if metadata.get("format") != FORMAT or not isinstance(state, dict):
        raise RecordError(f"{path} is no checkpoint of this library: its format is {metadata.get('format')!r}")
    return state


def newest(folder: Path) -> Checkpoint | None:
    """The last good checkpoint of a run; ``None`` where there never was one.

    A damaged ``last`` is set aside, lest it take the place of the good one before it.
    """
    found = [path for path in (folder / LAST, folder / PREVIOUS) if path.exists()]
    wrong = []
    for path in found:
        try:
            checkpoint = read_checkpoint(path)
        except RecordError as error:
            wrong.append(str(error))
            continue
        for each in found[: len(wrong)]:
            os.replace(each, each.with_name(f"damaged-{each.name}"))
            warnings.warn(f"{wrong[-1]}; going on from {path}", stacklevel=2)
        return checkpoint
    if wrong:
        raise RecordError(
            f"{'; '.join(wrong)}. No checkpoint of this run can be read: bring one back from a copy, or {ANEW}"
        )
    return None
