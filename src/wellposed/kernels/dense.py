"""Recurrences whose matrices are written out: S4 and Liquid-S4."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from wellposed.kernels.recurrence import Recurrence
from wellposed.kernels.scan import power_of_two, times


@dataclass(frozen=True)
class DenseRecurrence(Recurrence):
    """Any real matrices ``A``, in discrete time already."""

    A: Float[Tensor, "channel state state"]
    B: Float[Tensor, "channel state"]
    C: Float[Tensor, "direction channel state"]

    def discretize(self) -> DenseRecurrence:
        """Itself: whoever makes one has chosen the step."""
        return self

    @property
    def states(self) -> int:
        """Real numbers in the state of one channel."""
        return self.A.shape[-1]

    @property
    def directions(self) -> int:
        """As many as there are read-outs."""
        return self.C.shape[0]

    @property
    def transition(self) -> Tensor:
        """``A``."""
        return self.A

    def columns(self, count: int) -> Float[Tensor, "channel state count"]:
        """By doubling: ``[X, A^k X]``."""
        return _doubled(self.A, self.B, count)

    def rows(self, count: int, direction: int = 0) -> Float[Tensor, "channel count state"]:
        """By doubling, on the transposed side."""
        return _doubled(self.A.mT, self.C[direction], count).mT

    def every(self, steps: int) -> DenseRecurrence:
        """``A^steps``."""
        return DenseRecurrence(torch.linalg.matrix_power(self.A, int(steps)), self.B, self.C)

    def advance(
        self, x: Float[Tensor, "channel batch state"], steps: Int[Tensor, " batch"], most: int
    ) -> Float[Tensor, "channel batch state"]:
        """By the binary digits of ``steps``."""
        power = self.A
        for bit in range(most.bit_length()):
            moved = times(power.to(x.dtype), x)
            x = torch.where((steps[:, None] >> bit & 1).bool(), moved, x)
            power = power_of_two(power, 1)
        return x


def _doubled(A: Tensor, b: Tensor, count: int) -> Tensor:
    X = b[..., None]
    while X.shape[-1] < count:
        X = torch.cat([X, A @ X], -1)
        A = A @ A
    return X[..., :count]
