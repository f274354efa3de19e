"""Batch norm of sequences that lie channels first: a channel is one row, summed in pieces and then normalised.

Sums are made twice over: each program of a first kernel leaves those of its share, each of the second adds up what the
programs of its channel left, in the same order every time. One of them keeps the result.
"""

from __future__ import annotations

from typing import NamedTuple, no_type_check

import torch
import triton.language as tl
from torch import Tensor

from wellposed.kernels.gpu.launches import launch
from wellposed.kernels.gpu.pieces import jit
from wellposed.kernels.gpu.tiles import divide_up, new_sequences, power_of_two, read, true_steps

BLOCK, WARPS = 4096, 4
"""Steps a program looks at together."""
PROGRAMS = 2048
"""That sum up, in all channels together; each goes on to its next block."""


class Running(NamedTuple):
    """What batch norm carries from batch to batch, and how a batch moves it."""

    mean: Tensor
    var: Tensor
    batches: Tensor
    momentum: float | None
    """How far; ``None``: all batches count alike."""
    count_padding: bool = False
    """Whether its statistics are of padding too, as zeros."""


def shares_of(channels: int, total: int, block: int = BLOCK) -> tuple[int, int]:
    """Blocks in a channel, and programs that share them."""
    blocks = divide_up(total, block)
    return blocks, max(min(blocks, PROGRAMS // channels), 1)


def forward(
    u: Tensor, weight: Tensor, bias: Tensor, eps: float, running: Running, lengths: Tensor | None, training: bool,
    dtype: torch.dtype,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """``(channel, batch, length)`` to sequences, zero in the padding; mean, ``1 / deviation``, count of each channel.

    In training the running statistics are moved.
    """
    channels, batch, length = u.shape
    sizes, padded = (channels, batch * length, length), lengths is not None
    blocks, shares = shares_of(channels, batch * length)
    out, kept = new_sequences(u, dtype), u.new_empty(3, channels, dtype=torch.float32)
    sums = _sums(u, lengths, running, shares) if training else None
    arrays = (u, weight, bias, lengths, sums, running.mean, running.var, running.batches, out, kept)
    flags = (training, running.momentum is None, padded, power_of_two(shares), BLOCK)
    scalars = (eps, running.momentum or 0.0, shares)
    launch(_normalise, (blocks, channels), *arrays, *sizes, *scalars, *flags, num_warps=WARPS)
    return out, kept


def moments(
    u: Tensor, weight: Tensor, bias: Tensor, eps: float, running: Running, lengths: Tensor | None, training: bool
) -> Tensor:
    """Mean, ``1 / deviation``, count, ``weight / deviation`` and bias of each channel, for whoever applies them.

    In training the running statistics are moved, as by ``forward``.
    """
    channels, batch, length = u.shape
    _, shares = shares_of(channels, batch * length)
    found, sums = u.new_empty(5, channels, dtype=torch.float32), None
    if training:
        sums = _sums(u, lengths, running, shares)
    arrays = (weight, bias, sums, running.mean, running.var, running.batches, found)
    flags = (training, running.momentum is None, power_of_two(shares))
    launch(_moments, (channels,), *arrays, channels, eps, running.momentum or 0.0, shares, *flags, num_warps=1)
    return found


def _sums(u: Tensor, lengths: Tensor | None, running: Running, shares: int) -> Tensor:
    channels, batch, length = u.shape
    sums = u.new_empty(3, channels, shares, dtype=torch.float32)
    sizes, flags = (channels, batch * length, length, shares), (lengths is not None, running.count_padding, BLOCK)
    launch(_statistics, (shares, channels), u, lengths, sums, running.batches, *sizes, *flags, num_warps=WARPS)
    return sums


def backward(
    grad: Tensor,
    added: Tensor | None,
    u: Tensor,
    weight: Tensor,
    kept: Tensor,
    lengths: Tensor | None,
    training: bool,
    sums: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of ``u`` (with ``added`` to it), weight and bias.

    ``grad`` is ``(batch, length, channel)`` in any memory layout, expanded ones included; ``added`` lies as ``u``.
    ``sums`` are those of the gradients of weight and bias, ``(2, channel, share)``, where someone has made them.
    """
    channels, batch, length = u.shape
    sizes, padded = (channels, batch * length, length), lengths is not None
    blocks, shares = shares_of(channels, batch * length)
    du, both = torch.empty_like(u), u.new_empty(2, channels, dtype=torch.float32)
    laid = grad.permute(2, 0, 1).is_contiguous()  # almost always: read as fast as u
    if sums is None:
        sums = u.new_empty(2, channels, shares, dtype=torch.float32)
        arrays, flags, over = (u, kept, lengths, sums), (laid, padded, BLOCK), (shares, channels)
        launch(_gradient_sums, over, grad, *grad.stride(), *arrays, *sizes, shares, *flags, num_warps=WARPS)
    shares = sums.shape[2]
    arrays = (added, u, weight, kept, lengths, sums, du, both)
    flags = (laid, added is not None, training, padded, power_of_two(shares), BLOCK)
    launch(_gradient, (blocks, channels), grad, *grad.stride(), *arrays, *sizes, shares, *flags, num_warps=WARPS)
    return du, both[0], both[1]


@jit
@no_type_check
def _statistics(
    u, lengths, sums, batches, channels, total, length, shares,
    PADDED: tl.constexpr, COUNT_PADDING: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Count, mean and squared distances of a share of a channel; blocks are merged without cancellation."""
    share, c = tl.program_id(0), tl.program_id(1)
    count, mean, squares = 0.0, 0.0, 0.0
    for first in range(share * BLOCK, total, shares * BLOCK):
        n = first + tl.arange(0, BLOCK)
        true = true_steps(lengths, n, n < total, length, PADDED)
        x = read(u + c.to(tl.int64) * total + n, n < total, true, PADDED)
        if COUNT_PADDING:
            true = n < total
        more = tl.sum(true.to(tl.float32), 0)
        middle = tl.sum(x, 0) / tl.maximum(more, 1.0)
        x = tl.where(true, x - middle, 0.0)
        both = tl.maximum(count + more, 1.0)
        apart = middle - mean
        squares += tl.sum(x * x, 0) + apart * apart * count * more / both
        mean += apart * more / both
        count += more
    at = sums + c * shares + share
    tl.store(at, count)
    tl.store(at + channels * shares, mean)
    tl.store(at + 2 * channels * shares, squares)
    if (share == 0) & (c == 0):  # read by the kernel that comes next, never by this one
        tl.store(batches, tl.load(batches) + 1)


@jit
@no_type_check
def _normalise(
    u, weight, bias, lengths, sums, running_mean, running_var, batches, out, kept, channels, total, length,
    eps, momentum, shares, TRAINING: tl.constexpr, CUMULATIVE: tl.constexpr, PADDED: tl.constexpr,
    SHARES: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    block, c = tl.program_id(0), tl.program_id(1)
    count, mean, squares, rstd = _merged(sums, running_mean, running_var, c, channels, shares, eps, TRAINING, SHARES)
    n = block * BLOCK + tl.arange(0, BLOCK)
    true = true_steps(lengths, n, n < total, length, PADDED)
    at = c.to(tl.int64) * total + n
    x = read(u + at, n < total, true, PADDED)
    y = (x - mean) * (rstd * tl.load(weight + c).to(tl.float32)) + tl.load(bias + c).to(tl.float32)
    tl.store(out + at, tl.where(true, y, 0.0), n < total)
    if block == 0:
        tl.store(kept + c, mean)
        tl.store(kept + channels + c, rstd)
        tl.store(kept + 2 * channels + c, count)
        if TRAINING:
            _move(running_mean + c, running_var + c, batches, momentum, count, mean, squares, CUMULATIVE)


@jit
@no_type_check
def _moments(
    weight, bias, sums, running_mean, running_var, batches, found, channels, eps, momentum, shares,
    TRAINING: tl.constexpr, CUMULATIVE: tl.constexpr, SHARES: tl.constexpr,
):  # fmt: skip
    c = tl.program_id(0)
    count, mean, squares, rstd = _merged(sums, running_mean, running_var, c, channels, shares, eps, TRAINING, SHARES)
    at = found + c
    tl.store(at, mean)
    tl.store(at + channels, rstd)
    tl.store(at + 2 * channels, count)
    tl.store(at + 3 * channels, rstd * tl.load(weight + c).to(tl.float32))
    tl.store(at + 4 * channels, tl.load(bias + c).to(tl.float32))
    if TRAINING:
        _move(running_mean + c, running_var + c, batches, momentum, count, mean, squares, CUMULATIVE)


@jit
@no_type_check
def _merged(
    sums, running_mean, running_var, c, channels, shares, eps, TRAINING: tl.constexpr, SHARES: tl.constexpr
):  # fmt: skip
    """Count, mean, squared distances and ``1 / deviation`` of a channel, from the shares or from earlier batches."""
    if TRAINING:
        k = tl.arange(0, SHARES)
        at = sums + c * shares + k
        counts = tl.load(at, k < shares, other=0.0)
        means = tl.load(at + channels * shares, k < shares, other=0.0)
        count = tl.sum(counts, 0)
        mean = tl.sum(counts * means, 0) / count
        apart = means - mean
        squares = tl.load(at + 2 * channels * shares, k < shares, other=0.0)
        squares = tl.sum(squares + counts * apart * apart, 0)
        return count, mean, squares, 1 / tl.sqrt(squares / count + eps)
    else:
        var = tl.load(running_var + c).to(tl.float32)
        return 0.0, tl.load(running_mean + c).to(tl.float32), var, 1 / tl.sqrt(var + eps)


@jit
@no_type_check
def _move(running_mean, running_var, batches, momentum, count, mean, squares, CUMULATIVE: tl.constexpr):
    """The running statistics towards those of this batch; the variance that runs is the unbiased one."""
    if CUMULATIVE:
        momentum = 1 / tl.load(batches).to(tl.float32)
    tl.store(running_mean, (1 - momentum) * tl.load(running_mean).to(tl.float32) + momentum * mean)
    var = squares / (count - 1)
    tl.store(running_var, (1 - momentum) * tl.load(running_var).to(tl.float32) + momentum * var)


@jit
@no_type_check
def _gradient_sums(
    grad, per_batch, per_step, per_channel, u, kept, lengths, sums, channels, total, length, shares,
    LAID: tl.constexpr, PADDED: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    share, c = tl.program_id(0), tl.program_id(1)
    mean, rstd = tl.load(kept + c), tl.load(kept + channels + c)
    dw = tl.zeros([BLOCK], tl.float32)
    db = tl.zeros([BLOCK], tl.float32)
    for first in range(share * BLOCK, total, shares * BLOCK):
        n = first + tl.arange(0, BLOCK)
        true = true_steps(lengths, n, n < total, length, PADDED)
        x = read(u + c.to(tl.int64) * total + n, n < total, true, PADDED)
        dy = _gradient_at(grad, per_batch, per_step, per_channel, c, n, total, length, true, LAID, PADDED)
        dw += tl.where(true, dy * (x - mean) * rstd, 0.0)
        db += dy
    tl.store(sums + c * shares + share, tl.sum(dw, 0))
    tl.store(sums + (channels + c) * shares + share, tl.sum(db, 0))


@jit
@no_type_check
def _gradient(
    grad, per_batch, per_step, per_channel, added, u, weight, kept, lengths, sums, du, both, channels, total, length,
    shares, LAID: tl.constexpr, ADD: tl.constexpr, TRAINING: tl.constexpr, PADDED: tl.constexpr,
    SHARES: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    block, c = tl.program_id(0), tl.program_id(1)
    mean, rstd = tl.load(kept + c), tl.load(kept + channels + c)
    k = tl.arange(0, SHARES)
    dw = tl.sum(tl.load(sums + c * shares + k, k < shares, other=0.0), 0)
    db = tl.sum(tl.load(sums + (channels + c) * shares + k, k < shares, other=0.0), 0)
    n = block * BLOCK + tl.arange(0, BLOCK)
    true = true_steps(lengths, n, n < total, length, PADDED)
    at = c.to(tl.int64) * total + n
    dx = _gradient_at(grad, per_batch, per_step, per_channel, c, n, total, length, true, LAID, PADDED)
    if TRAINING:  # mean and deviation are of these numbers
        count = tl.load(kept + 2 * channels + c)
        x = (read(u + at, n < total, true, PADDED) - mean) * rstd
        dx -= (db + x * dw) / count
    dx *= tl.load(weight + c).to(tl.float32) * rstd
    if ADD:
        dx += read(added + at, n < total, true, PADDED)
    tl.store(du + at, tl.where(true, dx, 0.0), n < total)
    if block == 0:
        tl.store(both + c, dw)
        tl.store(both + channels + c, db)


@jit
@no_type_check
def _gradient_at(
    grad, per_batch, per_step, per_channel, c, n, total, length, true, LAID: tl.constexpr, PADDED: tl.constexpr
):  # fmt: skip
    if LAID:
        return read(grad + c.to(tl.int64) * total + n, n < total, true, PADDED)
    b, t = (n // length).to(tl.int64), (n % length).to(tl.int64)
    at = c.to(tl.int64) * per_channel + b * per_batch + t * per_step
    return read(grad + at, n < total, true, PADDED)
