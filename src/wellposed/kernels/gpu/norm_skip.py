"""Batch norm and a skip behind it: ``u``, the normalised sequence, and ``D u`` from one read; and gradients to match.

Of the gradient of ``u`` two parts come, ``du`` of the systems and ``dy`` of the outputs: ``du + D dy`` is never written
down, both kernels of the norm's gradient find it anew. What the first reads also gives the gradient of ``D`` and, for a
write, ``u`` once more, so that it need not wait for backward. Sequences lie channels first, sums are made in two steps
and in the same order each time: ``batch_norm``.
"""

from __future__ import annotations

from typing import Any, NamedTuple, no_type_check

import torch
import triton.language as tl
from jaxtyping import Float
from torch import Tensor

from wellposed.kernels.gpu.batch_norm import shares_of
from wellposed.kernels.gpu.launches import launch
from wellposed.kernels.gpu.pieces import Norm, jit, norm_of, normalised
from wellposed.kernels.gpu.tiles import divide_up, new_sequences, power_of_two, read, true_steps

# Steps a program looks at together, and warps that share them: the sums hold six numbers for each step in registers.
_NORMALISE, _SUMS, _GRADIENT = (1024, 4), (4096, 8), (4096, 8)

Rows = Float[Tensor, "channel batch length"]
Sequences = Float[Tensor, "batch length channel"]
Channels = Float[Tensor, " channel"]


class Gradients(NamedTuple):
    """Of what went into the norm and the skip."""

    x: Rows
    weight: Channels
    bias: Channels
    D: Channels


def normalised_and_skip(x: Rows, D: Channels, norm: Norm) -> tuple[Sequences, Sequences]:
    """``u`` and ``D u``, zero in the padding, whatever stood there."""
    u, skip = new_sequences(x, norm.dtype), new_sequences(x, norm.dtype)
    sizes, (block, warps) = _sizes(x), _NORMALISE
    tile = {"PADDED": norm.lengths is not None, "BLOCK": block, "num_warps": warps}
    grid = (divide_up(sizes[1], block), sizes[0])
    launch(_norm_and_skip, grid, x, norm.moments, D, norm.lengths, u, skip, *sizes, **tile)
    return u, skip


def gradient_sums(du: Rows, dy: Rows, x: Rows, D: Channels, norm: Norm, u: Rows | None) -> Tensor:
    """``(3, channel, share)`` for the gradients of weight, bias and ``D``; ``u`` is filled, where it is given."""
    sizes, (block, warps) = _sizes(x), _SUMS
    _, shares = shares_of(*sizes[:2], block)
    sums = torch.empty(3, sizes[0], shares, dtype=torch.float32, device=x.device)
    flags = {"PADDED": norm.lengths is not None, "WRITE": u is not None, "BLOCK": block, "num_warps": warps}
    arrays = (du, dy, x, norm.moments, D, norm.lengths, sums, u)
    launch(_norm_skip_sums, (shares, sizes[0]), *arrays, *sizes, shares, **flags)
    return sums


def gradients(
    du: Rows, dy: Rows, added: Rows | None, x: Rows, D: Channels, norm: Norm, sums: Tensor, *, training: bool
) -> Gradients:
    """With ``added`` to that of ``x``, which takes the place of ``du`` in memory where it fits."""
    sizes, (block, warps) = _sizes(x), _GRADIENT
    dx = du if du.dtype == x.dtype else torch.empty_like(x)
    shares, found = sums.shape[2], torch.empty(3, sizes[0], dtype=torch.float32, device=x.device)
    flags: dict[str, Any] = {"ADD": added is not None, "TRAINING": training, "PADDED": norm.lengths is not None}
    tile = {"SHARES": power_of_two(shares), "BLOCK": block, "num_warps": warps}
    arrays = (du, dy, added, x, norm.moments, D, norm.lengths, sums, dx, found)
    launch(_norm_skip_gradient, (divide_up(sizes[1], block), sizes[0]), *arrays, *sizes, shares, **flags, **tile)
    return Gradients(dx, *found.unbind())


def _sizes(x: Rows) -> tuple[int, int, int]:
    """Channels, steps of the whole batch, steps of a sequence."""
    channels, batch, length = x.shape
    return channels, batch * length, length


@jit
@no_type_check
def _norm_and_skip(
    x, moments, D, lengths, u, skip, channels, total, length, PADDED: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    block, c = tl.program_id(0), tl.program_id(1)
    mean, factor, bias = norm_of(moments, c, channels, True)
    n = block * BLOCK + tl.arange(0, BLOCK)
    true = true_steps(lengths, n, n < total, length, PADDED)
    at = c.to(tl.int64) * total + n
    value = normalised(tl.load(x + at, n < total, other=0.0), true, mean, factor, bias, True)
    tl.store(u + at, value, n < total)
    tl.store(skip + at, value * tl.load(D + c).to(tl.float32), n < total)


@jit
@no_type_check
def _norm_skip_sums(
    du, dy, x, moments, D, lengths, sums, u, channels, total, length, shares,
    PADDED: tl.constexpr, WRITE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    share, c = tl.program_id(0), tl.program_id(1)
    mean, factor, bias = norm_of(moments, c, channels, True)
    skip = tl.load(D + c).to(tl.float32)
    dw = tl.zeros([BLOCK], tl.float32)  # but for 1 / deviation, which all steps share
    db = tl.zeros([BLOCK], tl.float32)
    dD = tl.zeros([BLOCK], tl.float32)
    for first in range(share * BLOCK, total, shares * BLOCK):
        n = first + tl.arange(0, BLOCK)
        true = true_steps(lengths, n, n < total, length, PADDED)
        at = c.to(tl.int64) * total + n
        out = read(dy + at, n < total, true, PADDED)
        grad = read(du + at, n < total, true, PADDED) + skip * out
        apart = read(x + at, n < total, true, PADDED) - mean
        value = apart * factor + bias
        dw += grad * apart
        db += grad
        dD += out * value
        if WRITE:
            tl.store(u + at, tl.where(true, value, 0.0), n < total)
    at = sums + c * shares + share
    tl.store(at, tl.sum(dw, 0) * tl.load(moments + channels + c))
    tl.store(at + channels * shares, tl.sum(db, 0))
    tl.store(at + 2 * channels * shares, tl.sum(dD, 0))


@jit
@no_type_check
def _norm_skip_gradient(
    du, dy, added, x, moments, D, lengths, sums, dx, found, channels, total, length, shares,
    ADD: tl.constexpr, TRAINING: tl.constexpr, PADDED: tl.constexpr, SHARES: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    block, c = tl.program_id(0), tl.program_id(1)
    mean, factor, _ = norm_of(moments, c, channels, True)
    dw = _sum_of_shares(sums, c, shares, SHARES)
    db = _sum_of_shares(sums, channels + c, shares, SHARES)
    n = block * BLOCK + tl.arange(0, BLOCK)
    true = true_steps(lengths, n, n < total, length, PADDED)
    at = c.to(tl.int64) * total + n
    grad = read(du + at, n < total, true, PADDED)
    grad += tl.load(D + c).to(tl.float32) * read(dy + at, n < total, true, PADDED)
    if TRAINING:  # mean and deviation are of these numbers
        count = tl.load(moments + 2 * channels + c)
        apart = read(x + at, n < total, true, PADDED) - mean
        grad -= db / count + apart * (tl.load(moments + channels + c) * dw / count)
    grad *= factor
    if ADD:
        grad += read(added + at, n < total, true, PADDED)
    tl.store(dx + at, tl.where(true, grad, 0.0), n < total)
    if block == 0:
        tl.store(found + c, dw)
        tl.store(found + channels + c, db)
        tl.store(found + 2 * channels + c, _sum_of_shares(sums, 2 * channels + c, shares, SHARES))


@jit
@no_type_check
def _sum_of_shares(sums, row, shares, SHARES: tl.constexpr):
    k = tl.arange(0, SHARES)
    return tl.sum(tl.load(sums + row * shares + k, k < shares, other=0.0), 0)
