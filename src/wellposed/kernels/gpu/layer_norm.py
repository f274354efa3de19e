"""Layer norm of sequences that lie channels first: a program holds all channels of a few steps."""

from __future__ import annotations

from typing import no_type_check

import torch
import triton.language as tl
from torch import Tensor

from wellposed.kernels.gpu.launches import launch
from wellposed.kernels.gpu.pieces import jit
from wellposed.kernels.gpu.tiles import divide_up, new_sequences, power_of_two, read, true_steps

STEPS = {256: 32, 1024: 16, 2048: 8}
"""Up to so many channels: steps a program holds at a time. Fewer than 8 numbers in a row waste what memory sends."""
FORWARD, BACKWARD = 1024, 512
"""Numbers a warp holds at a time: the backward has three for each of them, and would run out of registers."""
PROGRAMS = 528
"""In the backward each sums up its share of the gradients of weight and bias: four for each processor of an H200."""


def _tile(channels: int, elements: int) -> dict[str, int]:
    size = power_of_two(channels)
    steps = next(steps for most, steps in STEPS.items() if size <= most)
    warps = min(max(size * steps // elements, 1), 32)
    return {"CHANNELS": size, "STEPS": steps, "num_warps": warps}


def forward(
    u: Tensor, weight: Tensor, bias: Tensor, eps: float, lengths: Tensor | None, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """``(channel, batch, length)`` to sequences, zero in the padding; and mean and ``1 / deviation`` of each step."""
    channels, batch, length = u.shape
    out = new_sequences(u, dtype)
    moments = u.new_empty(2, batch * length, dtype=torch.float32)
    tile = _tile(channels, FORWARD)
    arrays, sizes = (u, weight, bias, lengths, out, moments), (channels, batch * length, length)
    grid = (divide_up(batch * length, tile["STEPS"]),)
    launch(_forward, grid, *arrays, *sizes, eps, PADDED=lengths is not None, **tile)
    return out, moments


def backward(
    grad: Tensor, added: Tensor | None, u: Tensor, weight: Tensor, moments: Tensor, lengths: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of ``u`` (with ``added`` to it), weight and bias.

    ``grad`` is ``(batch, length, channel)`` in any memory layout, expanded ones included; ``added`` lies as ``u``.
    """
    channels, batch, length = u.shape
    du, tile = torch.empty_like(u), _tile(channels, BACKWARD)
    tiles = divide_up(batch * length, tile["STEPS"])
    programs = min(tiles, PROGRAMS)
    sums = u.new_empty(programs, 2, channels, dtype=torch.float32)
    arrays, sizes = (added, u, weight, moments, lengths, du, sums), (channels, batch * length, length)
    laid = grad.permute(2, 0, 1).is_contiguous()  # almost always: read as fast as u
    flags = {"LAID": laid, "ADD": added is not None, "PADDED": lengths is not None}
    launch(_backward, (programs,), grad, *grad.stride(), *arrays, *sizes, tiles, programs, **flags, **tile)
    dweight, dbias = sums.sum(0)
    return du, dweight, dbias


@jit
@no_type_check
def _forward(
    u, weight, bias, lengths, out, moments, channels, total, length, eps,
    PADDED: tl.constexpr, CHANNELS: tl.constexpr, STEPS: tl.constexpr,
):  # fmt: skip
    c = tl.arange(0, CHANNELS)
    n = tl.program_id(0) * STEPS + tl.arange(0, STEPS)
    inside = (c < channels)[:, None] & (n < total)[None, :]
    true = inside & true_steps(lengths, n, n < total, length, PADDED)[None, :]
    at = c.to(tl.int64)[:, None] * total + n[None, :]
    x = read(u + at, inside, true, PADDED)
    mean = tl.sum(x, 0) / channels
    x = tl.where(true, x - mean[None, :], 0.0)
    rstd = 1 / tl.sqrt(tl.sum(x * x, 0) / channels + eps)
    w = tl.load(weight + c, c < channels, other=0.0).to(tl.float32)
    b = tl.load(bias + c, c < channels, other=0.0).to(tl.float32)
    y = x * rstd[None, :] * w[:, None] + b[:, None]
    tl.store(out + at, tl.where(true, y, 0.0), inside)
    tl.store(moments + n, mean, n < total)
    tl.store(moments + total + n, rstd, n < total)


@jit
@no_type_check
def _backward(
    grad, per_batch, per_step, per_channel, added, u, weight, moments, lengths, du, sums, channels, total, length,
    tiles, programs, LAID: tl.constexpr, ADD: tl.constexpr, PADDED: tl.constexpr,
    CHANNELS: tl.constexpr, STEPS: tl.constexpr,
):  # fmt: skip
    c = tl.arange(0, CHANNELS)
    w = tl.load(weight + c, c < channels, other=0.0).to(tl.float32)
    dw = tl.zeros([CHANNELS], tl.float32)
    db = tl.zeros([CHANNELS], tl.float32)
    for tile in range(tl.program_id(0), tiles, programs):
        n = tile * STEPS + tl.arange(0, STEPS)
        inside = (c < channels)[:, None] & (n < total)[None, :]
        true = inside & true_steps(lengths, n, n < total, length, PADDED)[None, :]
        at = c.to(tl.int64)[:, None] * total + n[None, :]
        if LAID:
            dy = read(grad + at, inside, true, PADDED)
        else:
            b, t = (n // length).to(tl.int64), (n % length).to(tl.int64)
            steps = b * per_batch + t * per_step
            dy = read(grad + c.to(tl.int64)[:, None] * per_channel + steps[None, :], inside, true, PADDED)
        mean = tl.load(moments + n, n < total, other=0.0)
        rstd = tl.load(moments + total + n, n < total, other=0.0)
        x = read(u + at, inside, true, PADDED)
        x = tl.where(true, (x - mean[None, :]) * rstd[None, :], 0.0)
        dw += tl.sum(dy * x, 1)
        db += tl.sum(dy, 1)
        dy = dy * w[:, None]
        along = tl.sum(dy * x, 0) / channels
        dx = (dy - (tl.sum(dy, 0) / channels)[None, :] - x * along[None, :]) * rstd[None, :]
        if ADD:
            dx += read(added + at, inside, true, PADDED)
        tl.store(du + at, tl.where(true, dx, 0.0), inside)
    row = tl.program_id(0) * 2 * channels + c
    tl.store(sums + row, dw, c < channels)
    tl.store(sums + row + channels, db, c < channels)
