"""Batches ready for a model: cut, moved and decoded while the model is still busy with the last one."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from wellposed._checks import positive_int
from wellposed.data._dataset import Batch, PairBatch, SequenceDataset
from wellposed.data._order import Order
from wellposed.errors import ArgumentError

_RESIDENT_SHARE = 0.5
"""Of the free memory of a GPU that data may take up unasked: the other half is for the model and its gradients."""


class Batches:
    """Batches of a data set, pass after pass.

    - ``shuffle``, ``seed``, ``drop_last``, ``rank``, ``world``: see ``Order``, and there for resuming.
    - ``bucket``: sequences of similar length together; if shuffled and lengths differ, unless told otherwise. To train
      models with batch norm, take ``False``: statistics of one length are not those of all.
    - ``multiple``: padded lengths are rounded up to it, for compilers that want few lengths.
    - ``device``: where batches go.
    - ``resident``: the whole data set on that device, where batches are cut and decoded; ``None`` decides by whether
      it takes less than half of a GPU's free memory.
    - ``ahead``: batches made beforehand by a thread of their own; on a GPU 2 unless told otherwise.

    >>> import tempfile
    >>> from wellposed.data import load
    >>> train = load("sinusoids", tempfile.mkdtemp(), "train", count=10, steps=100)
    >>> batches = train.batches(4, seed=0)
    >>> for batch in batches:
    ...     print(tuple(batch.x.shape), tuple(batch.y.shape))
    (4, 100, 1) (4, 2)
    (4, 100, 1) (4, 2)
    (2, 100, 1) (2, 2)
    """

    def __init__(
        self,
        dataset: SequenceDataset,
        batch_size: int,
        *,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
        bucket: bool | None = None,
        multiple: int = 1,
        rank: int = 0,
        world: int = 1,
        device: Any = None,
        resident: bool | None = None,
        ahead: int | None = None,
    ) -> None:
        bucket = dataset.rows.ragged and shuffle if bucket is None else bucket
        lengths = dataset.lengths if bucket else None
        share = {"drop_last": drop_last, "rank": rank, "world": world}
        self.order = Order(len(dataset), batch_size, shuffle=shuffle, seed=seed, lengths=lengths, **share)
        self.device = None if device is None else torch.device(device)
        self.multiple = positive_int(multiple, "multiple")
        self.dataset = dataset.to(self.device) if self._is_resident(dataset, resident) else dataset
        gpu = self.device is not None and self.device.type == "cuda"
        self.ahead = (2 if gpu and self.dataset is dataset else 0) if ahead is None else ahead
        if self.ahead < 0:
            raise ArgumentError(f"ahead counts batches, got {ahead}")

    def _is_resident(self, dataset: SequenceDataset, resident: bool | None) -> bool:
        if self.device is None:
            return False
        if resident is not None:
            return resident
        if self.device.type != "cuda":
            return False
        return dataset.nbytes < _RESIDENT_SHARE * torch.cuda.mem_get_info(self.device)[0]

    def __len__(self) -> int:
        return len(self.order)

    def set_epoch(self, epoch: int) -> None:
        """The next pass is this epoch, from its start."""
        self.order.set_epoch(epoch)

    def state_dict(self) -> dict[str, Any]:
        """What comes next: of which epoch, after how many of its batches."""
        return self.order.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Begin the next pass there."""
        self.order.load_state_dict(state)

    def __iter__(self) -> Iterator[Batch | PairBatch]:
        return self.order.begin(self._made)

    def _made(self, batches: list[Int[np.ndarray, " _"]]) -> Iterator[Batch | PairBatch]:
        work = [torch.from_numpy(batch) for batch in batches]
        return made_ahead(self._make, work, self.ahead) if self.ahead else map(self._make, work)

    def _make(self, items: Tensor) -> Batch | PairBatch:
        return self.dataset.batch(items, multiple=self.multiple, device=self.device)


def made_ahead(make: Callable[[Any], Any], work: list[Any], ahead: int) -> Iterator[Any]:
    """``map(make, work)`` by a thread that keeps up to ``ahead`` results waiting, and stops when nobody listens."""
    ready: queue.Queue[tuple[Any, BaseException | None]] = queue.Queue(ahead)
    stop = threading.Event()

    def put(result: Any, error: BaseException | None = None) -> None:
        while not stop.is_set():
            try:
                return ready.put((result, error), timeout=0.1)  # then see whether anybody still listens
            except queue.Full:
                continue

    def run() -> None:
        for item in work:
            if stop.is_set():
                return
            try:
                put(make(item))
            except BaseException as error:  # handed to the reader, who raises it
                return put(None, error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        for _ in work:
            result, error = ready.get()
            if error is not None:
                raise error
            yield result
    finally:
        stop.set()
        thread.join()
