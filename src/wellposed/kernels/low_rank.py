"""Recurrences ``A = D + U V`` with ``D`` diagonal and ``U V`` of low rank: S4 and Liquid-S4 under the bilinear rule.

Powers of ``D`` come from logarithms as those of any diagonal; what the low rank adds to them is a triangular Toeplitz
system as long as the chunk. No matrix is squared. docs/devdocs/layers.md
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from wellposed.kernels.diagonal import Spectrum
from wellposed.kernels.low_rank_plain import blocks, twice
from wellposed.kernels.low_rank_tables import low_rank_tables
from wellposed.kernels.powers import PoweredRecurrence
from wellposed.kernels.precision import as_float64
from wellposed.kernels.recurrence import Recurrence
from wellposed.kernels.woodbury import bilinear_low_rank

_LONGEST_SYSTEM = 128
"""Steps: the triangular system of more would cost more than squaring."""


@dataclass(frozen=True)
class LowRankParameters:
    """Systems ``Lambda - P P^*`` of continuous time as S4 stores them, to be discretised by the bilinear rule.

    ``lambda = -exp(A_log_real) + i A_imag``. A backend may work from these directly; the others ask for the recurrence.
    Channels take the systems in turn.
    """

    A_log_real: Float[Tensor, "system mode"]
    A_imag: Float[Tensor, "system mode"]
    P: Float[Tensor, "system mode rank 2"]
    B: Float[Tensor, "system mode 2"]
    C: Float[Tensor, "direction channel mode 2"]
    log_dt: Float[Tensor, " channel"]
    weight: Float[Tensor, " mode"]
    """How many eigenvalues a mode stands for: 2 for one of a conjugate pair, 1 for a real one."""

    @property
    def states(self) -> int:
        """Real numbers in the state of one channel."""
        return 2 * self.A_imag.shape[-1]

    @property
    def rank(self) -> int:
        """Of ``P P^*``."""
        return self.P.shape[2]

    def discretize(self) -> LowRankRecurrence:
        """The systems of every channel in discrete time."""
        log_real, imag, P, B = (self._per_channel(p) for p in (self.A_log_real, self.A_imag, self.P, self.B))
        log_dt, weight = as_float64(self.log_dt), as_float64(self.weight)
        decay, angle, U, V, B = bilinear_low_rank(log_real, imag, P, B, log_dt, weight)
        # Re(C x) as a row for [Re x, Im x]
        rows = as_float64(self.C) * torch.stack([weight, -weight], -1)
        return LowRankRecurrence(Spectrum(decay, angle), U, V, B, rows.flatten(2))

    def _per_channel(self, parameter: Tensor) -> Tensor:
        copies, wide = self.log_dt.shape[0] // parameter.shape[0], as_float64(parameter)
        return wide if copies == 1 else wide.repeat(copies, *[1] * (parameter.ndim - 1))


@dataclass(frozen=True)
class LowRankRecurrence(Recurrence):
    """``x_t = (D + U V) x_{t-1} + B u_t``, in discrete time already; states are pairs ``[Re, Im]`` of modes."""

    modes: Spectrum
    U: Float[Tensor, "channel rank state"]
    """Columns of ``U``, one below the other."""
    V: Float[Tensor, "channel rank state"]
    B: Float[Tensor, "channel state *input"]
    C: Float[Tensor, "direction channel state"]

    @property
    def states(self) -> int:
        """Real numbers in the state of one channel."""
        return self.U.shape[-1]

    @property
    def rank(self) -> int:
        """Of ``U V``."""
        return self.U.shape[1]

    @property
    def directions(self) -> int:
        """As many as there are read-outs."""
        return self.C.shape[0]

    @property
    def inputs(self) -> int:
        """Numbers that enter at a step."""
        return self.B.shape[2] if self.B.ndim == 3 else 1

    @property
    def transition(self) -> Float[Tensor, "channel state state"]:
        """The matrix written out."""
        return matrix_of(self.modes.transition) + self.U.mT @ self.V

    def discretize(self) -> LowRankRecurrence:
        """Itself: whoever makes one has chosen the step."""
        return self

    def columns(self, count: int) -> Float[Tensor, "channel state count_input"]:
        """``A^t B``."""
        return self.chunk_tables(count)[0]

    def rows(self, count: int, direction: int = 0) -> Float[Tensor, "channel count state"]:
        """``C A^t``."""
        return self.tables(count)[1][direction][:, :count]

    def tables(self, count: int) -> tuple[Tensor, list[Tensor]]:
        """``columns(count)`` and ``rows(count + 1)`` of each direction."""
        return self.chunk_tables(count)[:2]

    def chunk_tables(self, count: int) -> tuple[Tensor, list[Tensor], Tensor]:
        """Columns, rows and ``A^count``, found together."""
        B = (self.B if self.B.ndim == 3 else self.B[..., None]).mT
        C = self.C.transpose(0, 1)
        columns, rows, carry = low_rank_tables(self.modes.decay, self.modes.angle, self.U, self.V, B, C, count)
        return columns.transpose(1, 2).flatten(1, 2).mT, list(rows.unbind(1)), carry

    def every(self, steps: int) -> PoweredRecurrence:
        """``A^steps`` written out."""
        long = steps > _LONGEST_SYSTEM
        A = torch.linalg.matrix_power(self.transition, steps) if long else self.chunk_tables(steps)[2]
        return PoweredRecurrence(A, self.B, self.C)

    def advance(
        self, x: Float[Tensor, "channel batch state"], steps: Int[Tensor, " batch"], most: int
    ) -> Float[Tensor, "channel batch state"]:
        """By the binary digits of ``steps``."""
        return PoweredRecurrence(self.transition, self.B, self.C).advance(x, steps, most)


def matrix_of(diagonal: Float[Tensor, "channel state"]) -> Float[Tensor, "channel state state"]:
    """A diagonal complex matrix in real coordinates: blocks ``[[Re, -Im], [Im, Re]]``."""
    re, im = diagonal.unflatten(-1, (-1, 2)).unbind(-1)
    return blocks(twice(re), twice(im))
