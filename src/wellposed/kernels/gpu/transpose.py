"""From ``(batch, length, channel)`` to the memory layout "channels first" and back, at the speed of a copy.

Channels first is a tensor of the same shape whose memory is a contiguous ``(channel, batch, length)`` array: what
filters a channel along time reads neighbours, and a linear map of the channels is one matrix product.
"""

from __future__ import annotations

from typing import Any, no_type_check

import torch
import triton.language as tl
from jaxtyping import Float
from torch import Tensor

from wellposed.kernels.gpu.launches import launch
from wellposed.kernels.gpu.pieces import jit
from wellposed.kernels.gpu.tiles import divide_up, new_sequences
from wellposed.kernels.layout import is_channels_first

TILE, WARPS = 32, 2
"""Square tiles: both sides move whole lines of 128 bytes, and more warps only wait for each other."""

Sequences = Float[Tensor, "batch length channel"]


def to_channels_first(x: Sequences) -> Sequences:
    """The same numbers, channels first; what is so already is handed back."""
    if is_channels_first(x):
        return x
    if torch.compiler.is_compiling():  # which makes it part of a kernel of its own
        return x.permute(2, 0, 1).contiguous().permute(1, 2, 0)
    return _ToChannelsFirst.apply(x)


def to_channels_last(x: Sequences) -> Sequences:
    """The same numbers in a contiguous ``(batch, length, channel)`` array; what is so already is handed back."""
    if x.is_contiguous() or torch.compiler.is_compiling():
        return x.contiguous()
    return _ToChannelsLast.apply(x)


def laid_first(x: Sequences) -> Sequences:
    """``to_channels_first`` without a derivative, for those who have their own; never the same tensor."""
    out = new_sequences(x.permute(2, 0, 1), x.dtype)
    return _transposed(x.contiguous(), out, x.shape[2])


def laid_last(x: Sequences) -> Sequences:
    """``to_channels_last`` without a derivative; never the same tensor."""
    if not is_channels_first(x):
        return x.clone(memory_format=torch.contiguous_format)
    return _transposed(x, x.new_empty(x.shape), x.shape[0] * x.shape[1])


class _ToChannelsFirst(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return laid_first(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The layout its input came in: what made that reads its gradient in the same order."""
        return to_channels_last(grad)


class _ToChannelsLast(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return laid_last(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        return to_channels_first(grad)


def _transposed(x: Tensor, out: Tensor, columns: int) -> Tensor:
    """The matrix that ``x`` is in memory, transposed into the memory of ``out``."""
    rows, across = x.numel() // columns, divide_up(columns, TILE)
    launch(_transpose, (divide_up(rows, TILE) * across,), x, out, rows, columns, across, TILE, num_warps=WARPS)
    return out


@jit
@no_type_check
def _transpose(x, out, rows, columns, across, TILE: tl.constexpr):
    tile = tl.program_id(0)
    i = (tile // across) * TILE + tl.arange(0, TILE)
    j = (tile % across) * TILE + tl.arange(0, TILE)
    inside = (i < rows)[:, None] & (j < columns)[None, :]
    values = tl.load(x + i.to(tl.int64)[:, None] * columns + j[None, :], inside)
    tl.store(out + j.to(tl.int64)[None, :] * rows + i[:, None], values, inside)
