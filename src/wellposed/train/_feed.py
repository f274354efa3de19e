"""Batches cut where the data lie, from a position that lies there too: between two steps nothing is sent.

The order of a whole epoch is put on the device, and every batch moves the position on by itself. So a recorded step can
contain the cutting of its batch, and replaying it is all that is left to do.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Int, Shaped
from torch import Tensor

from wellposed.data import Batch, PairBatch, SequenceDataset

Kind = tuple[int, int]
"""How many sequences a batch has, and their padded length: what a recording is made for."""


class Feed:
    """A data set on a device, and the order in which it is gone through: ``most`` batches of ``size`` at most."""

    def __init__(self, dataset: SequenceDataset, device: torch.device, widths: Widths, *, most: int, size: int) -> None:
        self.dataset, self.widths = dataset, widths
        self._values = dataset.rows.values.to(device)
        offsets = getattr(dataset.rows, "offsets", None)
        self._offsets = None if offsets is None else offsets.to(device)
        self._y = dataset.y.to(device)
        self._pairs = None if dataset.pairs is None else dataset.pairs.to(device)
        self._order = torch.zeros(most, size, dtype=torch.int64, device=device)
        self.at = torch.zeros(1, dtype=torch.int64, device=device)
        """Batches taken."""

    def begin(self, batches: Sequence[Int[np.ndarray, " _"]]) -> list[Kind]:
        """Go through these from now on; what kind each of them is."""
        order = np.zeros((len(batches), self._order.shape[1]), dtype=np.int64)
        for row, batch in zip(order, batches, strict=True):
            row[: len(batch)] = batch
        self._order[: len(batches)].copy_(torch.from_numpy(order))
        self.at.zero_()
        return [(len(batch), self.widths.of(batch)) for batch in batches]

    def next(self, kind: Kind) -> Batch | PairBatch:
        """The next batch, which has to be of this kind; no value is looked at."""
        size, width = kind
        items = self._order.index_select(0, self.at)[0, :size]
        self.at.add_(1)
        y = self._y.index_select(0, items)
        if self._pairs is None:
            x, lengths = self._cut(items, width)
            return Batch(x, y, lengths)
        first, second = self._pairs.index_select(0, items).unbind(1)
        (a, lengths_a), (b, lengths_b) = self._cut(first, width), self._cut(second, width)
        return PairBatch(a, b, y, lengths_a, lengths_b)

    def _cut(self, rows: Int[Tensor, " batch"], width: int) -> tuple[Shaped[Tensor, "..."], Tensor | None]:
        if self._offsets is None:
            return self.dataset.decode(self._values.index_select(0, rows)), None
        start = self._offsets.index_select(0, rows)
        lengths = self._offsets.index_select(0, rows + 1) - start
        step = torch.arange(width, device=rows.device)
        at = (start[:, None] + step).clamp_(max=len(self._values) - 1)  # padding of the last rows lies beyond the end
        padding = (step >= lengths[:, None]).reshape(*at.shape, *[1] * (self._values.ndim - 1))
        cut = self._values.index_select(0, at.flatten()).unflatten(0, at.shape)
        return self.dataset.decode(cut.masked_fill_(padding, 0)), lengths


class Widths:
    """To which lengths batches are padded; at most so many different ones as are worth a recording each.

    >>> Widths(torch.tensor([3, 17, 90, 1000]), multiple=8, most=4).multiple
    256
    """

    def __init__(self, lengths: Int[Tensor, " item"], *, multiple: int = 1, most: int | None = None) -> None:
        self._lengths = lengths.numpy()
        self.multiple, longest = multiple, int(self._lengths.max())
        self._fixed = longest if int(self._lengths.min()) == longest else None
        while most is not None and self._fixed is None and -(-longest // self.multiple) > most:
            self.multiple *= 2

    def of(self, items: Int[np.ndarray, " _"]) -> int:
        """The padded length of a batch of these."""
        if self._fixed is not None:
            return self._fixed
        return -(-int(self._lengths[items].max()) // self.multiple) * self.multiple
