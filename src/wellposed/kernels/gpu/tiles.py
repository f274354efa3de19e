"""Sizes of tiles, where a program stands in sequences that lie channels first, and which steps exist."""

from __future__ import annotations

from typing import no_type_check

import torch
import triton.language as tl
from torch import Tensor

from wellposed.kernels.gpu.pieces import jit

ELEMENTS, STEPS, WARPS = 2048, 1024, 4
"""Of a tile: numbers, at most so many steps of one sequence, and the warps that share them."""


def new_sequences(rows: Tensor, dtype: torch.dtype) -> Tensor:
    """Room for ``(batch, length, channel)``, channels first, of the sizes of a ``(channel, batch, length)`` array.

    Not a view of such an array: what a layer of PyTorch's gives can be changed in place, and views from here could not.
    """
    channels, batch, length = rows.shape
    strides = (length, 1, batch * length)
    return torch.empty_strided((batch, length, channels), strides, dtype=dtype, device=rows.device)


def divide_up(n: int, size: int) -> int:
    """How many pieces of ``size`` hold ``n``."""
    return -(-n // size)


def power_of_two(n: int) -> int:
    """The smallest one that is at least ``n``."""
    return 1 << (n - 1).bit_length()


def elementwise_tile(channels: int, batch: int, length: int) -> tuple[tuple[int, int], int, dict[str, int]]:
    """The grid, pieces a sequence, and the tile of kernels that treat every number by itself: some channels of one."""
    steps = min(max(power_of_two(length), 4), STEPS)  # four at least: random numbers come in fours
    rows = min(power_of_two(channels), max(ELEMENTS // steps, 1))
    pieces = divide_up(length, steps)
    grid = (batch * pieces, divide_up(channels, rows))
    return grid, pieces, {"ROWS": rows, "STEPS": steps, "num_warps": WARPS}


@jit
@no_type_check
def place(pieces, ROWS: tl.constexpr, STEPS: tl.constexpr):
    """Sequence, channels and first step of this program."""
    piece = tl.program_id(0)
    c = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    return piece // pieces, c, (piece % pieces) * STEPS


@jit
@no_type_check
def end_of(lengths, b, length, PADDED: tl.constexpr):
    """How many steps of sequence ``b`` exist."""
    if PADDED:
        return tl.load(lengths + b).to(tl.int32)
    return length


@jit
@no_type_check
def true_steps(lengths, n, inside, length, PADDED: tl.constexpr):
    """Which of the steps ``n``, counted through the whole batch, exist."""
    if PADDED:
        return inside & (n % length < tl.load(lengths + n // length, inside, other=0))
    return inside


@jit
@no_type_check
def read(at, inside, true, PADDED: tl.constexpr):
    """Numbers in float32, zero where nothing is and in the padding.

    Lengths are no multiples of anything: masked by them, a load would fetch its numbers one by one.
    """
    x = tl.load(at, inside, other=0.0).to(tl.float32)
    if PADDED:
        x = tl.where(true, x, 0.0)
    return x
