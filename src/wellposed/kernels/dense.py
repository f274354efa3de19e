"""Recurrences whose matrices are written out: S4 and Liquid-S4."""

from __future__ import annotations

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from wellposed.kernels.powers import PoweredRecurrence


@dataclass(frozen=True)
class DenseRecurrence(PoweredRecurrence):
    """Any real matrices ``A``, in discrete time already."""

    A: Float[Tensor, "channel state state"]
    B: Float[Tensor, "channel state *input"]
    C: Float[Tensor, "direction channel state"]

    def discretize(self) -> DenseRecurrence:
        """Itself: whoever makes one has chosen the step."""
        return self
