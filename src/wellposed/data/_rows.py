"""Sequences as they lie on disk or on a GPU, all of one length or one after the other, and how batches are cut."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from jaxtyping import Int, Shaped
from torch import Tensor


def to_device(values: Shaped[Tensor, "..."], device: Any) -> Shaped[Tensor, "..."]:
    """The same values there, without waiting for them."""
    # A GPU fetches from pinned memory by itself; from any other the program has to wait.
    pin = values.device.type == "cpu" and torch.device(device).type == "cuda"
    return (values.pin_memory() if pin else values).to(device, non_blocking=True)


@dataclass(frozen=True)
class Rows(ABC):
    """Many sequences in few tensors, memory-mapped or on a device."""

    ragged: ClassVar[bool]
    """Whether lengths differ by nature, so that batches are padded and come with their lengths."""

    values: Shaped[Tensor, "..."]

    @property
    def device(self) -> torch.device:
        """Where they are."""
        return self.values.device

    @property
    def nbytes(self) -> int:
        """How much room they take."""
        return self.values.nbytes

    def to(self, device: Any) -> Rows:
        """All of them there."""
        return replace(self, values=self.values.to(device))

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def __getitem__(self, row: int) -> Shaped[Tensor, "length *channel"]: ...

    @property
    @abstractmethod
    def lengths(self) -> Int[Tensor, " row"]:
        """Steps of every sequence, on the CPU."""

    @abstractmethod
    def gather(
        self, rows: Int[Tensor, " batch"], multiple: int = 1
    ) -> tuple[Shaped[Tensor, "batch length *channel"], Int[Tensor, " batch"] | None]:
        """These sequences side by side, zeros behind the shorter ones; their lengths where they differ by nature."""


@dataclass(frozen=True)
class FixedRows(Rows):
    """Sequences of one length: ``values`` is ``(row, length, channel)``, or ``(row, length)`` for tokens."""

    ragged: ClassVar[bool] = False

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, row: int) -> Shaped[Tensor, "length *channel"]:
        return self.values[row]

    @property
    def lengths(self) -> Int[Tensor, " row"]:
        """All the same."""
        return torch.full((len(self.values),), self.values.shape[1])

    def gather(
        self, rows: Int[Tensor, " batch"], multiple: int = 1
    ) -> tuple[Shaped[Tensor, "batch length *channel"], None]:
        """These sequences, one below the other."""
        return self.values.index_select(0, to_device(rows, self.device)), None


@dataclass(frozen=True)
class RaggedRows(Rows):
    """Sequences of different lengths, one after the other in ``values``: row ``i`` from ``offsets[i]`` to the next.

    A step is a token, or the numbers of all channels: ``values`` is ``(step,)`` or ``(step, channel)``.
    """

    ragged: ClassVar[bool] = True

    offsets: Int[Tensor, " row_and_one"]
    """On the CPU, wherever the values are."""

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, row: int) -> Shaped[Tensor, "length *channel"]:
        row = range(len(self))[row]
        return self.values[self.offsets[row] : self.offsets[row + 1]]

    @property
    def lengths(self) -> Int[Tensor, " row"]:
        """Steps of every sequence."""
        return self.offsets.diff()

    def gather(
        self, rows: Int[Tensor, " batch"], multiple: int = 1
    ) -> tuple[Shaped[Tensor, "batch length *channel"], Int[Tensor, " batch"]]:
        """These sequences padded with 0 to the longest of them, rounded up to a ``multiple``."""
        start = self.offsets[rows]
        lengths = self.offsets[rows + 1] - start
        width = -(-int(lengths.max()) // multiple) * multiple
        gather = _gather_by_row if self.device.type == "cpu" else _gather_by_index
        return gather(self.values, start, lengths, width), lengths


def _gather_by_row(values: Tensor, start: Tensor, lengths: Tensor, width: int) -> Tensor:
    """Row by row, which a CPU does faster than through an index of every element."""
    out = torch.zeros(len(start), width, *values.shape[1:], dtype=values.dtype)
    source, target = values.numpy(), out.numpy()
    for row, (first, count) in enumerate(zip(start.tolist(), lengths.tolist(), strict=True)):
        target[row, :count] = source[first : first + count]
    return out


def _gather_by_index(values: Tensor, start: Tensor, lengths: Tensor, width: int) -> Tensor:
    """All rows at once, for a GPU."""
    start, lengths = to_device(start, values.device), to_device(lengths, values.device)
    step = torch.arange(width, device=values.device)
    at = (start[:, None] + step).clamp_(max=len(values) - 1)  # padding of the last rows lies beyond the end
    padding = (step >= lengths[:, None]).reshape(*at.shape, *[1] * (values.ndim - 1))
    return values[at].masked_fill_(padding, 0)
