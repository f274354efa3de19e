"""Where a task puts its sequences: arrays in a folder, one below each split, described by a manifest."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int, Shaped

from wellposed.data._dataset import Info
from wellposed.data.store._consistency import as_pairs, as_sequences, as_targets, check_info, check_split, indexable
from wellposed.data.store._fields import is_name
from wellposed.data.store._fingerprint import fingerprint
from wellposed.errors import DataError

Progress = Callable[[str, int, int], None]
"""Told what is being done, how much of it is, and how much there is."""

_BLOCK = 4096  # rows written at a time, so that parts on disk never have to be in memory together


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
        x: Shaped[np.ndarray, "row length *channel"] | Picked | Sequence[Shaped[np.ndarray, "_ ..."]],
        y: Sequence[Any] | Shaped[np.ndarray, "item *target"],
        *,
        pairs: Int[np.ndarray, "item 2"] | None = None,
    ) -> None:
        """The sequences of a split and their targets.

        ``x`` is an array ``(item, length, channel)`` of pixels (uint8) or numbers (float32); where lengths differ, a
        list of arrays: of tokens ``(length,)``, or of numbers ``(length, channel)`` (float32). ``y`` is classes, or
        numbers ``(item, target)``. With ``pairs`` each item is two of the sequences, named by their places in ``x``.
        """
        if not is_name(split):
            raise DataError(f"a split is named in letters, digits and hyphens, not {split!r}")
        if f"{split}/x.npy" in self.arrays:
            raise DataError(f"split {split} is written twice: write all of it at once")
        y = as_targets(split, y)
        sequences = x if isinstance(x, np.ndarray | Picked) else as_sequences(split, x)
        items = sequences.shape[0] if isinstance(sequences, np.ndarray | Picked) else len(sequences)
        if len(y) == 0 or len(y) != (items if pairs is None else len(pairs)):
            raise DataError(
                f"split {split} has {items} sequences and {len(y)} targets: each needs one, and one at least"
            )
        (self._folder / split).mkdir(exist_ok=True)
        if isinstance(sequences, np.ndarray | Picked):
            self._save(f"{split}/x.npy", indexable(sequences) if isinstance(sequences, np.ndarray) else sequences)
        else:
            self._save(f"{split}/offsets.npy", np.cumsum([0, *map(len, sequences)], dtype=np.int64))
            self._save(f"{split}/x.npy", indexable(np.concatenate(sequences)))
        self._save(f"{split}/y.npy", y)
        if pairs is not None:
            self._save(f"{split}/pairs.npy", as_pairs(split, pairs))

    def check(self, info: Info, task: str) -> None:
        """Compare what was written with what it is said to be."""
        check_info(info, task)
        if not self.arrays:
            raise DataError("build wrote no split: call out.write for each")
        for split in dict.fromkeys(name.partition("/")[0] for name in self.arrays):
            arrays = {
                Path(name).stem: np.load(self._folder / name, mmap_mode="r")
                for name in self.arrays
                if name.startswith(f"{split}/")
            }
            check_split(split, arrays, info)

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
