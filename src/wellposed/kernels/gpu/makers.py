"""Where the tables of a chunk come from: kernels for layers' own parameters, PyTorch's own operations for any other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from wellposed.kernels.diagonal import DiagonalParameters
from wellposed.kernels.discretize import Discretisation
from wellposed.kernels.gpu import low_rank, low_rank_gradients
from wellposed.kernels.gpu.pieces import Sizes
from wellposed.kernels.gpu.plain import plain_tables
from wellposed.kernels.gpu.tables import make_tables, modes_like, tables_backward
from wellposed.kernels.low_rank import LowRankParameters
from wellposed.kernels.work import Work

Values = Sequence[Tensor | None]


class Maker(Protocol):
    """How tables come from the values that a system is made of."""

    def make(self, values: Any, sizes: Sizes) -> list[Tensor]:
        """The tables, and what their gradient needs besides the values."""
        ...

    def gradients(self, values: Any, kept: Sequence[Tensor], sizes: Sizes, tables: Tensor) -> Sequence[Tensor | None]:
        """Of the values, from that of the tables."""
        ...

    def plain(self, values: Any, sizes: Sizes) -> Tensor:
        """The tables by operations that PyTorch can differentiate again."""
        ...

    def kept_like(self, values: Any, sizes: Sizes) -> list[Tensor]:
        """Room for what ``make`` keeps."""
        ...


class _Diagonal:
    """By kernels, from ``A_log_real, A_imag, B, C, log_dt, weight, D``."""

    def __init__(self, disc: Discretisation) -> None:
        self.disc: Discretisation = disc

    def _system(self, *values: Any) -> DiagonalParameters:
        A_log_real, A_imag, B, C, log_dt, weight = values
        return DiagonalParameters(A_log_real, A_imag, B, C, log_dt, weight, self.disc)

    def make(self, values: Any, sizes: Sizes) -> list[Tensor]:
        return list(make_tables(self._system(*values[:6]), values[6], sizes))

    def gradients(self, values: Any, kept: Sequence[Tensor], sizes: Sizes, tables: Tensor) -> Sequence[Tensor | None]:
        *found, D = tables_backward(self._system(*values[:6]), values[6], kept[0], sizes, tables)
        return [*found, None, D]

    def plain(self, values: Any, sizes: Sizes) -> Tensor:
        return plain_tables(self._system(*values[:6]).discretize(), values[6], sizes)

    def kept_like(self, values: Any, sizes: Sizes) -> list[Tensor]:
        return [modes_like(values[3], sizes)]


class _LowRank:
    """By kernels, from ``A_log_real, A_imag, P, B, C, log_dt, weight, D``."""

    def make(self, values: Any, sizes: Sizes) -> list[Tensor]:
        return low_rank.make_tables(LowRankParameters(*values[:7]), values[7], sizes)

    def gradients(self, values: Any, kept: Sequence[Tensor], sizes: Sizes, tables: Tensor) -> Sequence[Tensor | None]:
        system, (chains, bars) = LowRankParameters(*values[:7]), kept
        *found, D = low_rank_gradients.tables_backward(system, values[7], chains, bars, sizes, tables)
        return [*found, None, D]

    def plain(self, values: Any, sizes: Sizes) -> Tensor:
        return plain_tables(LowRankParameters(*values[:7]).discretize(), values[7], sizes)

    def kept_like(self, values: Any, sizes: Sizes) -> list[Tensor]:
        return low_rank.kept_like(values[4], values[2].shape[2], sizes)


class _Given:
    """They are the value."""

    def make(self, values: Any, sizes: Sizes) -> list[Tensor]:
        return [values[0].clone()]  # what an operator returns is its own

    def gradients(self, values: Any, kept: Sequence[Tensor], sizes: Sizes, tables: Tensor) -> Sequence[Tensor | None]:
        return [tables]

    def plain(self, values: Any, sizes: Sizes) -> Tensor:
        return values[0]

    def kept_like(self, values: Any, sizes: Sizes) -> list[Tensor]:
        return []


MAKERS: dict[str, Maker] = {
    "zoh": _Diagonal("zoh"),
    "bilinear": _Diagonal("bilinear"),
    "low-rank": _LowRank(),
    "given": _Given(),
}


def of(work: Work, sizes: Sizes) -> tuple[str, tuple[Tensor | None, ...]]:
    """Which maker, and the values it takes, in float32: gradients of a half kind are rounded once, at the end."""
    s: Any = work.system
    if isinstance(s, DiagonalParameters):
        return s.disc, _wide(s.A_log_real, s.A_imag, s.B, s.C, s.log_dt, s.weight, work.D)
    if isinstance(s, LowRankParameters) and s.rank <= low_rank.LARGEST_RANK:
        return "low-rank", _wide(s.A_log_real, s.A_imag, s.P, s.B, s.C, s.log_dt, s.weight, work.D)
    return "given", (plain_tables(s.discretize(), work.D, sizes),)


def _wide(*values: Tensor | None) -> tuple[Tensor | None, ...]:
    return tuple(v if v is None or v.dtype == torch.float32 else v.float() for v in values)
