"""Dropout with one mask for all steps."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from wellposed.errors import ArgumentError


def checked_probability(p: float | int) -> float:
    """A probability of dropping, below 1."""
    if isinstance(p, bool) or not isinstance(p, float | int) or not 0 <= p < 1:
        raise ArgumentError(f"dropout must be at least 0 and below 1, got {p!r}")
    return float(p)


class TiedDropout(nn.Module):
    """Dropout with one mask for all steps: a channel of a sequence is kept or dropped as a whole.

    >>> TiedDropout(0.5)(torch.ones(2, 100, 4)).shape
    torch.Size([2, 100, 4])
    """

    def __init__(self, p: float | int) -> None:
        super().__init__()
        self.p = checked_probability(p)

    def forward(self, x: Float[Tensor, "batch *length channel"]) -> Float[Tensor, "batch *length channel"]:
        """The same sequences in eval mode."""
        if not self.training or self.p == 0:
            return x
        mask = torch.ones(x.shape[0], *[1] * (x.ndim - 2), x.shape[-1], dtype=x.dtype, device=x.device)
        return x * F.dropout(mask, self.p)

    def extra_repr(self) -> str:
        """The probability."""
        return f"p={self.p}"
