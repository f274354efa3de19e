"""One vector for a sequence, made of the steps that exist."""

from __future__ import annotations

from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from wellposed.errors import ShapeError, UnknownNameError
from wellposed.nn._lengths import Lengths, as_lengths

Pooling = Literal["mean", "last", "max", "none"]
POOLINGS = ("mean", "last", "max", "none")


def pool(
    x: Float[Tensor, "batch length channel"], lengths: Tensor | Lengths | None = None, how: Pooling = "mean"
) -> Float[Tensor, "batch *length channel"]:
    """Mean, last or maximum over the true steps of each sequence; ``"none"`` keeps all steps, zero in the padding.

    >>> x = torch.tensor([[[1.0], [3.0], [9.0]]])
    >>> pool(x, torch.tensor([2]), "mean")
    tensor([[2.]])
    """
    if how not in POOLINGS:
        raise UnknownNameError("pooling", how, POOLINGS)
    if x.ndim != 3 or x.shape[1] == 0:
        raise ShapeError(f"pooling takes (batch, length, channel) with a length of 1 or more, got {tuple(x.shape)}")
    known = as_lengths(lengths, x.shape[0], x.shape[1], x.device)
    return _pool(x, how) if known is None else _pool_known(x, known, how)


def _pool(x: Tensor, how: Pooling) -> Tensor:
    if how == "mean":
        return x.mean(1)
    if how == "last":
        return x[:, -1]
    return x.amax(1) if how == "max" else x


def _pool_known(x: Tensor, known: Lengths, how: Pooling) -> Tensor:
    if how == "mean":
        # Half precision cannot count to 70000, nor add up as many numbers.
        total = known.zero(x).sum(1, dtype=torch.promote_types(x.dtype, torch.float32))
        return (total / known.values[:, None]).to(x.dtype)
    if how == "last":
        return x.gather(1, (known.values - 1)[:, None, None].expand(-1, 1, x.shape[2]))[:, 0]
    return torch.where(known.mask[..., None], x, -torch.inf).amax(1) if how == "max" else known.zero(x)
