"""In which order items come: shuffled or not, alike lengths together, a share for every process, resumable."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from jaxtyping import Int
from torch import Tensor
from torch.utils.data import Sampler

from wellposed._checks import positive_int
from wellposed._checks import seed as checked_seed
from wellposed.errors import ArgumentError

T = TypeVar("T")

_POOL_BATCHES = 100
"""Batches whose items are sorted by length together: enough for little padding, few enough to stay random."""
_ITEMS, _BATCHES = 0, 1
"""What is shuffled: each has random bits of its own."""


@dataclass(eq=False)
class _Pass:
    """How far a pass has come; there as long as the pass is."""

    epoch: int
    given: int


class Order(Sampler[list[int]]):
    """Batches of indices: the ``batch_sampler`` of a ``DataLoader``, or what ``Batches`` goes by.

    Every pass is a new epoch with an order of its own, drawn from ``seed`` and the number of the epoch alone.
    ``state_dict`` says what comes next; loaded into an equal order, the next pass begins there. Inside a loop that is
    its next batch; after the loop, left early or not, the next epoch, as another loop would have it. Of several passes
    at a time the one begun last counts.

    Several processes make each batch together: process ``rank`` of ``world`` takes every ``world``-th item of it, so
    that all have the same number of batches and every item is seen once; which items make a batch does not depend on
    how many processes share it. ``lengths`` puts sequences of similar length together.

    What does not fill a batch is the end of the epoch's order before it is sorted by length: shuffled, another random
    sample in every epoch; not shuffled, the last items of the data. It makes a last, smaller batch, or is left out by
    ``drop_last``.

    >>> order = Order(10, 4, seed=0)
    >>> [len(batch) for batch in order]
    [4, 4, 2]
    >>> sorted(i for batch in order for i in batch) == list(range(10))
    True
    """

    def __init__(
        self,
        count: int,
        batch_size: int,
        *,
        shuffle: bool = True,
        seed: int = 0,
        lengths: Int[Tensor, " item"] | None = None,
        drop_last: bool = False,
        rank: int = 0,
        world: int = 1,
    ) -> None:
        self.count, self.batch_size = positive_int(count, "count"), positive_int(batch_size, "batch_size")
        self.shuffle, self.seed, self.drop_last = shuffle, checked_seed(seed), drop_last
        self.rank, self.world = rank, positive_int(world, "world")
        # A copy: PyTorch moves the memory of a tensor it sends to another process, and a view would be left behind.
        self.lengths = None if lengths is None else lengths.numpy().copy()
        self._next = (0, 0)
        """Epoch and batch where the next pass begins."""
        # Weak: when the loop is left, nobody can go on with its pass, and what comes next is another.
        self._latest: weakref.ref[_Pass] | None = None
        self._check()

    def _check(self) -> None:
        if not isinstance(self.rank, int) or not 0 <= self.rank < self.world:
            raise ArgumentError(f"rank goes from 0 to world - 1 = {self.world - 1}, got {self.rank}")
        if self.lengths is not None and len(self.lengths) != self.count:
            raise ArgumentError(f"{self.count} items need as many lengths, got {len(self.lengths)}")
        if not len(self):
            needed = self._global_batch_size if self.drop_last else self.world
            raise ArgumentError(
                f"{self.count} items do not fill one batch of {self.batch_size} for {self.world} processes, which "
                f"takes {needed}: use smaller batches" + (" or drop_last=False" if self.drop_last else "")
            )

    @property
    def _global_batch_size(self) -> int:
        """Items of a batch of all processes together."""
        return self.batch_size * self.world

    def __len__(self) -> int:
        full, rest = divmod(self.count, self._global_batch_size)
        # A rest too small to give each process an item goes into the batch before it.
        return full + (not self.drop_last and rest >= self.world)

    def set_epoch(self, epoch: int) -> None:
        """The next pass is this epoch, from its start."""
        if not isinstance(epoch, int) or not 0 <= epoch < 2**63:
            raise ArgumentError(f"epochs count from 0 to 2^63 - 1, got {epoch!r}")
        self._next, self._latest = (epoch, 0), None

    def state_dict(self) -> dict[str, Any]:
        """What comes next, in plain numbers: of which epoch, after how many of its batches."""
        epoch, given = self._position()
        return {"epoch": epoch, "batches": given, "of": self._plan()}

    def _position(self) -> tuple[int, int]:
        latest = None if self._latest is None else self._latest()
        return self._next if latest is None or latest.given == len(self) else (latest.epoch, latest.given)

    def __getstate__(self) -> dict[str, Any]:
        """A copy goes on where this is; the pass itself stays here."""
        return self.__dict__ | {"_next": self._position(), "_latest": None}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Begin the next pass there."""
        epoch, given, plan = (state.get(key) if isinstance(state, dict) else None for key in ("epoch", "batches", "of"))
        if plan != self._plan():
            raise ArgumentError(f"the state is of batches made from {plan}, these are made from {self._plan()}")
        if not (isinstance(epoch, int) and isinstance(given, int) and 0 <= epoch < 2**63 and 0 <= given < len(self)):
            raise ArgumentError(f"epoch {epoch}, batch {given} of {len(self)}: this is no state of such batches")
        self._next, self._latest = (epoch, given), None

    def _plan(self) -> dict[str, Any]:
        """All that the order depends on."""
        plan = {"count": self.count, "items a batch": self._global_batch_size, "batches": len(self)}
        plan |= {"shuffle": self.shuffle, "seed": self.seed}
        return plan | {"by length": self.lengths is not None, "drop_last": self.drop_last}

    def __iter__(self) -> Iterator[list[int]]:
        return self.begin(lambda batches: (batch.tolist() for batch in batches))

    def begin(self, make: Callable[[list[Int[np.ndarray, " _"]]], Iterator[T]]) -> Iterator[T]:
        """A new pass over what ``make`` makes of the batches it has to give; it begins with the first one taken."""
        this = _Pass(*self._next)
        for taken, batch in enumerate(make(self.batches(this.epoch)[this.given :])):
            if not taken:  # only now, as a loader that was just started has begun a pass of its own
                self._next, self._latest = (this.epoch + 1, 0), weakref.ref(this)
            this.given += 1
            yield batch

    def counting(self, loader: Iterable[T]) -> Iterator[T]:
        """A pass over a ``DataLoader`` that has this order as its ``batch_sampler``, counting what you receive.

        With workers a loader asks its sampler ahead of time, and the state of the order would be ahead of you.
        """

        def received(_: Any) -> Iterator[T]:
            before = self._next
            for taken, batch in enumerate(loader):
                if not taken and self._next == before:
                    raise ArgumentError("the loader does not ask this order for batches: make it its batch_sampler")
                yield batch

        return self.begin(received)

    def batches(self, epoch: int) -> list[Int[np.ndarray, " _"]]:
        """This process's share of every batch of an epoch."""
        items = self._permutation(self.count, epoch, _ITEMS) if self.shuffle else np.arange(self.count)
        full = self.count // self._global_batch_size * self._global_batch_size
        # Cut off before sorting: afterwards the rest would always be the shortest sequences.
        items, rest = items[:full], items[full:]
        if self.lengths is not None:
            items, rest = self._by_length(items), self._by_length(rest)
        batches = list(items.reshape(-1, self._global_batch_size))
        if self.shuffle and self.lengths is not None:
            batches = [batches[i] for i in self._permutation(len(batches), epoch, _BATCHES)]
        if len(batches) < len(self):
            batches.append(rest)
        elif len(rest) and not self.drop_last:
            batches[-1] = np.concatenate([batches[-1], rest])
        # Every world-th item, not one piece each: of a batch sorted by length all processes get long and short ones.
        return [batch[self.rank :: self.world] for batch in batches]

    def _by_length(self, items: Int[np.ndarray, " item"]) -> Int[np.ndarray, " item"]:
        """Longest first within each pool of batches, or altogether if nothing is shuffled."""
        assert self.lengths is not None
        pool = _POOL_BATCHES * self._global_batch_size if self.shuffle else self.count
        pools = np.split(items, range(pool, len(items), pool))
        return np.concatenate([some[np.argsort(-self.lengths[some], kind="stable")] for some in pools])

    def _permutation(self, count: int, epoch: int, what: int) -> Int[np.ndarray, " item"]:
        """From raw bits, whose stream numpy promises never to change, unlike that of its own ``permutation``."""
        # Two words each for seed and epoch: numpy takes as many as a number needs, and joins them to one sequence, in
        # which seed 2^32 of one epoch would be seed 0 of another.
        words = [part for number in (self.seed, epoch) for part in (number & 0xFFFFFFFF, number >> 32)]
        bits = np.random.PCG64(np.random.SeedSequence([*words, what]))
        return np.argsort(bits.random_raw(count), kind="stable")
