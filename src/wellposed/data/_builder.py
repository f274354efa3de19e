"""Where a task puts its sequences: arrays in a folder, one below each split, described by a manifest."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int, Shaped

from wellposed.data._dataset import Info
from wellposed.data._fingerprint import fingerprint
from wellposed.errors import DataError

Progress = Callable[[str, int, int], None]
"""Told what is being done, how much of it is, and how much there is."""

_BLOCK = 4096


class Picked:
    """Some rows of an array that need not fit into memory, gathered when they are written."""

    def __init__(self, values: Any, rows: list[int]) -> None:
        self._values, self._rows = values, np.array(rows)
        self.shape, self.dtype = (len(rows), *values.shape[1:]), values.dtype

    def __getitem__(self, block: slice) -> Shaped[np.ndarray, "block *channel"]:
        return self._values[self._rows[block]]


class Builder:
    """What ``Task.build`` writes to. Nothing of it is seen by anyone before the whole task is there."""

    def __init__(self, root: Path, folder: Path, scratch: Path, progress: Progress | None = None) -> None:
        self.root = root
        """The data folder, where published files are looked for."""
        self.scratch = scratch
        """A folder that survives an interrupted build: for parts that took long to make."""
        self._folder, self._progress = folder, progress
        self.arrays: dict[str, Any] = {}

    def step(self, what: str, done: int, total: int) -> None:
        """Report progress."""
        if self._progress:
            self._progress(what, done, total)

    def write(
        self,
        split: str,
        x: Shaped[np.ndarray, "row length *channel"] | Picked | Sequence[Shaped[np.ndarray, " _"]],
        y: Sequence[Any] | Shaped[np.ndarray, "item *target"],
        *,
        pairs: Int[np.ndarray, "item 2"] | None = None,
    ) -> None:
        """The sequences of a split and their targets.

        ``x`` is an array ``(item, length, channel)`` of pixels (uint8) or numbers (float32), or a list of arrays of
        tokens. ``y`` is classes, or numbers ``(item, target)``. With ``pairs`` each item is two of the sequences, named
        by their places in ``x``.
        """
        y = np.asarray(y)
        y = y[:, None] if y.dtype.kind == "f" and y.ndim == 1 else y
        items = x.shape[0] if isinstance(x, np.ndarray | Picked) else len(x)
        if len(y) == 0 or len(y) != (items if pairs is None else len(pairs)):
            raise DataError(
                f"split {split} has {items} sequences and {len(y)} targets: each needs one, and one at least"
            )
        (self._folder / split).mkdir(parents=True, exist_ok=True)
        if isinstance(x, np.ndarray | Picked):
            self._save(f"{split}/x.npy", x)
        else:
            self._save(f"{split}/offsets.npy", np.cumsum([0, *map(len, x)], dtype=np.int64))
            self._save(f"{split}/x.npy", np.concatenate(x))
        self._save(f"{split}/y.npy", y.astype(np.float32 if y.dtype.kind == "f" else np.int64))
        if pairs is not None:
            self._save(f"{split}/pairs.npy", pairs.astype(np.int64))

    def check(self, info: Info) -> None:
        """Compare what was written with what it is said to be."""
        for name in self.arrays:
            split, _, array = name.partition("/")
            values = np.load(self._folder / name, mmap_mode="r")
            if array == "y.npy":
                _check_targets(values, info, split)
            elif array == "x.npy":
                _check_sequences(values, info, split)

    def _save(self, name: str, values: Shaped[np.ndarray, "..."] | Picked) -> None:
        path = self._folder / name
        with path.open("wb") as file:
            header = {"descr": np.dtype(values.dtype).str, "fortran_order": False, "shape": tuple(values.shape)}
            np.lib.format.write_array_header_1_0(file, header)
            for first in range(0, values.shape[0], _BLOCK):
                file.write(np.ascontiguousarray(values[first : first + _BLOCK]).data)
            file.flush()
            os.fsync(file.fileno())
        self.arrays[name] = fingerprint(path)


def _check_targets(y: Shaped[np.ndarray, "item *target"], info: Info, split: str) -> None:
    if info.classes and (y.dtype.kind != "i" or y.ndim != 1 or not 0 <= y.min() <= y.max() < len(info.classes)):
        raise DataError(f"split {split}: classes are whole numbers from 0 to {len(info.classes) - 1}, got {_seen(y)}")
    if not info.classes and (y.dtype.kind != "f" or y.shape[1:] != (len(info.targets),)):
        raise DataError(f"split {split}: targets {info.targets} are float (item, {len(info.targets)}), got {_seen(y)}")


def _check_sequences(x: Shaped[np.ndarray, "..."], info: Info, split: str) -> None:
    if info.vocabulary is not None:
        if x.dtype.kind not in "iu" or x.ndim > 2 or not 0 <= x.min() <= x.max() < len(info.vocabulary):
            raise DataError(
                f"split {split}: tokens are whole numbers from 0 to {len(info.vocabulary) - 1}, as a list of arrays or "
                f"(item, length), got {_seen(x)}"
            )
    elif x.dtype not in (np.uint8, np.float32) or x.ndim != 3 or x.shape[2] != info.channels:
        raise DataError(
            f"split {split}: sequences are uint8 or float32 (item, length, {info.channels} channels), got {_seen(x)}"
        )
    if info.vocabulary is None and (x.dtype == np.uint8) != (info.mean is not None):
        raise DataError(
            f"split {split}: pixels (uint8) come with a mean and std, numbers (float32) without: {_seen(x)}"
        )


def _seen(values: np.ndarray) -> str:
    return f"{values.dtype} {values.shape} from {values.min()} to {values.max()}"
