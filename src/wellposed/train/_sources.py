"""Where batches come from, step after step: cut on the device, or handed to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from jaxtyping import Float32, Int
from torch import Tensor

from wellposed.data import Batch, Batches, Order, PairBatch
from wellposed.train._feed import Feed, Kind, Widths
from wellposed.train._recorded import Recorded, Recorder

Step = Callable[[Any, Tensor, float], None]
"""Takes a batch, the factor of the learning rates, and the weight of this process's share."""

_MOST_LENGTHS = 32
"""Padded lengths worth a recording each: they take about a second and some memory apiece."""


def has_few_lengths(batches: Batches) -> bool:
    """Whether there is a recording for each of the lengths that batches are padded to, without padding them further."""
    return Widths(batches.dataset.lengths, multiple=batches.multiple, most=_MOST_LENGTHS).multiple == batches.multiple


class ResidentSource:
    """Batches of data that lie on the device: a step is a call without arguments, which can be recorded."""

    def __init__(self, batches: Batches, device: torch.device, step: Step, recorder: Recorder | None) -> None:
        dataset, self.order = batches.dataset, batches.order
        widths = Widths(dataset.lengths, multiple=batches.multiple, most=None if recorder is None else _MOST_LENGTHS)
        self._feed = Feed(dataset, device, widths, most=len(self.order), size=self.order.batch_size)
        self._factors = torch.ones(len(self.order), device=device)
        self._step, self._recorded = step, Recorded(self._once, recorder)

    def _once(self, kind: Kind) -> None:
        factor = self._factors.index_select(0, self._feed.at)[0]
        self._step(self._feed.next(kind), factor, 1.0)

    def steps(self, factors: Float32[np.ndarray, " step"] | None = None) -> Iterator[int]:
        """The rest of the epoch, a step at a time, with a factor for each of the epoch; how many sequences each had."""
        if factors is not None:
            left = torch.from_numpy(factors[self.order.state_dict()["batches"] :])
            self._factors[: len(left)].copy_(left)
        for size, kind in self.order.begin(self._begin):
            self._recorded(kind)
            yield size

    def _begin(self, batches: list[Int[np.ndarray, " _"]]) -> Iterator[tuple[int, Kind]]:
        return zip(map(len, batches), self._feed.begin(batches), strict=True)

    def batch(self, epoch: int, number: int) -> Batch | PairBatch:
        """One batch by itself, to look at."""
        return next(self._cut(self.order.batches(epoch)[number : number + 1]))

    def some(self, epoch: int, count: int) -> Iterator[Batch | PairBatch]:
        """The first batches of an epoch, outside of it."""
        return self._cut(self.order.batches(epoch)[:count])

    def _cut(self, batches: list[Int[np.ndarray, " _"]]) -> Iterator[Batch | PairBatch]:
        return map(self._feed.next, self._feed.begin(batches))


class StreamedSource:
    """Batches made on the way, for several processes, or for data that do not fit on a device."""

    def __init__(self, batches: Batches, device: torch.device, step: Step) -> None:
        self._batches, self.order, self._step, self._device = batches, batches.order, step, device

    def steps(self, factors: Float32[np.ndarray, " step"]) -> Iterator[int]:
        """The rest of the epoch, a step at a time; how many sequences each had, of all processes."""
        there = torch.from_numpy(factors).to(self._device)
        given, world = self.order.state_dict()["batches"], self.order.world
        sizes = _sizes(self.order)
        for number, batch in enumerate(self._batches, given):
            size = sizes[number]
            # The mean over processes of means over their shares: right only if each counts for what it holds.
            self._step(batch, there[number], len(batch.y) * world / size)
            yield size

    def batch(self, epoch: int, number: int) -> Batch | PairBatch:
        """One batch by itself, to look at."""
        return self._cut(self.order.batches(epoch)[number])

    def some(self, epoch: int, count: int) -> Iterator[Batch | PairBatch]:
        """The first batches of an epoch, outside of it."""
        return map(self._cut, self.order.batches(epoch)[:count])

    def _cut(self, items: Int[np.ndarray, " _"]) -> Batch | PairBatch:
        return self._batches.dataset.batch(
            torch.from_numpy(items), multiple=self._batches.multiple, device=self._device
        )


def _sizes(order: Order) -> list[int]:
    """Sequences of each batch of an epoch, of all processes together."""
    full = order.batch_size * order.world
    sizes = [full] * len(order)
    if not order.drop_last:
        sizes[-1] = order.count - full * (len(order) - 1)
    return sizes


def is_resident(batches: Batches, device: torch.device) -> bool:
    """Whether batches can be cut where the model is; on a CPU files are mapped into memory as if they were."""
    return batches.order.world == 1 and batches.dataset.rows.device.type == device.type
