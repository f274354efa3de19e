"""Recurrences of any matrices in discrete time: powers are found by squaring."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from wellposed.kernels.recurrence import Recurrence
from wellposed.kernels.scan import adjoint, power_of_two, times


@dataclass(frozen=True)
class PoweredRecurrence(Recurrence):
    """``A`` as the scan takes it: real matrices, or diagonals of which real and imaginary parts are written in turn.

    One column of ``B`` an input, and one row of ``C`` an output; with one of either their axes may be left out.
    """

    A: Float[Tensor, "channel state *state"]
    B: Float[Tensor, "channel state *input"]
    C: Float[Tensor, "direction channel *output state"]

    @property
    def states(self) -> int:
        """Real numbers in the state of one channel."""
        return self.A.shape[-1]

    @property
    def directions(self) -> int:
        """As many as there are read-outs."""
        return self.C.shape[0]

    @property
    def inputs(self) -> int:
        """Numbers that enter at a step."""
        return self.B.shape[2] if self.B.ndim == 3 else 1

    @property
    def outputs(self) -> int:
        """Numbers that come out at a step."""
        return self.C.shape[2] if self.C.ndim == 4 else 1

    @property
    def transition(self) -> Tensor:
        """``A``."""
        return self.A

    def columns(self, count: int) -> Float[Tensor, "channel state count_input"]:
        """``[X, A^k X]``, doubled until they are enough."""
        return _doubled(self.A, self.B if self.B.ndim == 3 else self.B[..., None], count)

    def rows(self, count: int, direction: int = 0) -> Float[Tensor, "channel count_output state"]:
        """The same on the transposed side."""
        C = self.C[direction]
        return _doubled(adjoint(self.A), C.mT if C.ndim == 3 else C[..., None], count).mT

    def every(self, steps: int) -> PoweredRecurrence:
        """``A^steps``."""
        return PoweredRecurrence(_power(self.A, int(steps)), self.B, self.C)

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


def _doubled(
    A: Tensor, X: Float[Tensor, "channel state port"], count: int
) -> Float[Tensor, "channel state count_port"]:
    size = count * X.shape[-1]
    while X.shape[-1] < size:
        X = torch.cat([X, A @ X if A.ndim == 3 else times(A, X.mT).mT], -1)
        A = power_of_two(A, 1) if X.shape[-1] < size else A
    return X[..., :size]


def _power(A: Tensor, steps: int) -> Tensor:
    """``A^steps``, at least one step; by squaring, with no square that is not needed: an unstable one may overflow."""
    if A.ndim == 3:
        return torch.linalg.matrix_power(A, steps)
    if steps == 1:
        return A
    half = _power(A, steps // 2)
    return times(times(half, half), A) if steps % 2 else times(half, half)
