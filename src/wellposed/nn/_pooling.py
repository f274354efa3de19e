"""One vector for a sequence, made of the steps that exist: of all at once, or step after step."""

from __future__ import annotations

from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from wellposed.errors import ArgumentError, ShapeError, UnknownNameError
from wellposed.kernels import as_float64
from wellposed.nn._lengths import Lengths, as_lengths

Pooling = Literal["mean", "last", "max", "first", "cls", "none"]
POOLINGS = ("mean", "last", "max", "first", "cls", "none")

Running = tuple[Tensor, ...]
"""What is carried from step to step: sum and count for ``"mean"``, the largest so far for ``"max"``, else nothing."""
CARRIED = {"mean": 2, "max": 1, "last": 0, "first": 0, "cls": 0, "none": 0}
"""How many tensors that is."""
_AT_THE_START = ("first", "cls")


def pool(
    x: Float[Tensor, "batch length channel"], lengths: Tensor | Lengths | None = None, how: Pooling = "mean"
) -> Float[Tensor, "batch *length channel"]:
    """Mean, last or maximum over the true steps of each sequence; ``"none"`` keeps all steps, zero in the padding.

    ``"first"`` and ``"cls"`` are the first step: of the sequence, or a class vector that a model has put before it.

    >>> x = torch.tensor([[[1.0], [3.0], [9.0]]])
    >>> pool(x, torch.tensor([2]), "mean")
    tensor([[2.]])
    """
    if how not in POOLINGS:
        raise UnknownNameError("pooling", how, POOLINGS)
    if x.ndim != 3 or x.shape[1] == 0:
        raise ShapeError(f"pooling takes (batch, length, channel) with a length of 1 or more, got {tuple(x.shape)}")
    if how in _AT_THE_START:
        return x[:, 0]
    lengths = as_lengths(lengths, x.shape[0], x.shape[1], x.device)
    return _pool_all(x, how) if lengths is None else _pool_true(x, lengths, how)


def _pool_all(x: Tensor, how: Pooling) -> Tensor:
    if how == "mean" and x.is_cuda:  # the gradient of a sum is one row for all steps, not written out for each
        return (_total(x, None) / x.shape[1]).to(x.dtype)
    if how == "mean":
        return x.mean(1)
    if how == "last":
        return x[:, -1]
    return x.amax(1) if how == "max" else x


def _pool_true(x: Tensor, lengths: Lengths, how: Pooling) -> Tensor:
    if how == "mean":
        return (_total(x, lengths) / lengths.values[:, None]).to(x.dtype)
    if how == "last":
        return x.gather(1, (lengths.values - 1)[:, None, None].expand(-1, 1, x.shape[2]))[:, 0]
    return _largest(x, lengths) if how == "max" else lengths.zero(x)


def _total(x: Tensor, lengths: Lengths | None) -> Tensor:
    """Half precision cannot count to 70000, nor add up as many numbers."""
    return (x if lengths is None else lengths.zero(x)).sum(1, dtype=torch.promote_types(x.dtype, torch.float32))


def _largest(x: Tensor, lengths: Lengths | None) -> Tensor:
    return x.amax(1) if lengths is None else torch.where(lengths.mask[..., None], x, -torch.inf).amax(1)


def begin(how: Pooling, batch: int, channels: int, like: Tensor) -> Running:
    """Before the first step. Sum and count in float64: in float32 both stand still from 2^24 steps on."""
    _check_runs_along(how)
    if how == "mean":
        zeros = as_float64(torch.zeros(batch, channels, device=like.device))
        return zeros, zeros[:, 0].clone()
    if how == "max":
        return (torch.full((batch, channels), -torch.inf, dtype=like.dtype, device=like.device),)
    return ()


def carry_on(
    x: Float[Tensor, "batch length channel"], lengths: Lengths | None, how: Pooling, running: Running
) -> tuple[Float[Tensor, "batch *length channel"], Running]:
    """Pooled over these steps and all before them, and what the next ones need."""
    _check_runs_along(how)
    if how == "mean":
        total, count = running
        total = total + _total(x, lengths).to(total.dtype)
        count = count + (x.shape[1] if lengths is None else lengths.values)
        return (total / count[:, None]).to(x.dtype), (total, count)
    if how == "max":
        top = torch.maximum(running[0], _largest(x, lengths))
        return top, (top,)
    return pool(x, lengths, how), ()


def _check_runs_along(how: Pooling) -> None:
    if how in _AT_THE_START:
        raise ArgumentError(
            f"a model with pooling={how!r} does not stream: what its first step says depends on all that follow; use "
            "pooling='mean', 'last' or 'max'"
        )
