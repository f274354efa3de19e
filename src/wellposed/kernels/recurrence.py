"""What a kernel needs of a recurrence ``x_t = A x_{t-1} + B u_t, y_t = C x_t``, one for every channel.

Another structure has to supply no more: columns ``A^t B``, rows ``C A^t``, the same recurrence seen every so many
steps, and a state advanced by so many. ``C`` has a row for each direction; ``A`` and ``B`` are those of both.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from jaxtyping import Float, Int
from torch import Tensor


class Recurrence(ABC):
    """Systems side by side in real coordinates; complex states are stored as ``[Re, Im, Re, Im, ...]``."""

    @property
    @abstractmethod
    def states(self) -> int:
        """Real numbers in the state of one channel."""

    @property
    @abstractmethod
    def directions(self) -> int:
        """1, or 2 where a second read-out goes over the reversed sequence."""

    @property
    def inputs(self) -> int:
        """Numbers that enter at a step; one in a layer."""
        return 1

    @property
    def outputs(self) -> int:
        """Numbers that come out at a step."""
        return 1

    @property
    @abstractmethod
    def transition(self) -> Tensor:
        """``A`` as the scan takes it: a diagonal ``(channel, state)`` or matrices ``(channel, state, state)``."""

    @abstractmethod
    def columns(self, count: int) -> Float[Tensor, "channel state count_input"]:
        """``A^t B`` for t = 0 .. count - 1, side by side."""

    @abstractmethod
    def rows(self, count: int, direction: int = 0) -> Float[Tensor, "channel count_output state"]:
        """``C A^t`` for t = 0 .. count - 1, one below the other."""

    def tables(self, count: int) -> tuple[Tensor, list[Tensor]]:
        """``columns(count)``, and ``rows(count + 1)`` of each direction: what a chunk of ``count`` steps needs."""
        return self.columns(count), [self.rows(count + 1, direction) for direction in range(self.directions)]

    def chunk_tables(self, count: int) -> tuple[Tensor, list[Tensor], Tensor]:
        """``tables(count)``, and the transition of ``every(count)``; for structures that find all of them at once."""
        return *self.tables(count), self.every(count).transition

    @abstractmethod
    def every(self, steps: int) -> Recurrence:
        """The recurrence whose ``A`` is ``A^steps``."""

    @abstractmethod
    def advance(
        self, x: Float[Tensor, "channel batch state"], steps: Int[Tensor, " batch"], most: int
    ) -> Float[Tensor, "channel batch state"]:
        """``A^steps x``, another number of steps for each sequence, none above ``most``."""
