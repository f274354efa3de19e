"""What follows a layer, apart from the linear map: activation and dropout; and gate, dropout and the input added.

Arrays are ``(channel, batch, length)``, those of the linear map ``(channel or twice as many, batch * length)``; what
comes out are sequences, channels first. Sums are in float32, whatever the arrays are.
"""

from __future__ import annotations

from typing import Any, no_type_check

import torch
import triton.language as tl
from torch import Tensor

from wellposed.kernels.gpu.dropout import drop
from wellposed.kernels.gpu.launches import launch
from wellposed.kernels.gpu.pieces import jit
from wellposed.kernels.gpu.tiles import elementwise_tile, end_of, new_sequences, place, read


def activate(
    y: Tensor, activation: str, seeds: Tensor | None, dropout: str, p: float, *,
    added: Tensor | None = None, lengths: Tensor | None = None, dtype: torch.dtype,
) -> Tensor:  # fmt: skip
    """``dropout(activation(y))``, plus ``added``; zero in the padding."""
    out = new_sequences(y, dtype)
    grid, pieces, tile = elementwise_tile(*y.shape)
    flags = {"ACTIVATION": activation, "DROPOUT": dropout, "ADD": added is not None, "PADDED": lengths is not None}
    launch(_activate, grid, y, added, seeds, lengths, out, p, *y.shape, pieces, **flags, **tile)
    return out


def activate_backward(
    grad: Tensor, y: Tensor, activation: str, seeds: Tensor | None, dropout: str, p: float, *,
    added: Tensor | None = None, lengths: Tensor | None = None, again: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The gradient of ``y``, plus ``added``; and into ``again`` what ``activate`` made of ``y``."""
    dy = torch.empty_like(y)
    grid, pieces, tile = elementwise_tile(*y.shape)
    flags = {"ACTIVATION": activation, "DROPOUT": dropout, "ADD": added is not None, "PADDED": lengths is not None}
    flags |= {"AGAIN": again is not None}
    launch(_activate_backward, grid, grad, y, added, seeds, lengths, dy, again, p, *y.shape, pieces, **flags, **tile)
    return dy


def gate(
    z: Tensor, bias: Tensor, value: Tensor | None, added: Tensor | None, seeds: Tensor | None, dropout: str, p: float,
    *, lengths: Tensor | None, like: Tensor, dtype: torch.dtype,
) -> Tensor:  # fmt: skip
    """``dropout(value * sigmoid(z + bias))``, plus ``added``; without a ``value`` it is the first half of ``z + bias``.

    Zero in the padding. ``like`` has the shape of what comes out.
    """
    out = new_sequences(like, dtype)
    grid, pieces, tile = elementwise_tile(*like.shape)
    flags = _flags(value, dropout, lengths) | {"ADD": added is not None}
    launch(_gate, grid, z, bias, value, added, seeds, lengths, out, p, *like.shape, pieces, **flags, **tile)
    return out


def gate_backward(
    grad: Tensor, z: Tensor, bias: Tensor, value: Tensor | None, seeds: Tensor | None, dropout: str, p: float,
    *, lengths: Tensor | None, activation: str | None = None,
) -> tuple[Tensor, Tensor | None, Tensor]:  # fmt: skip
    """Gradients of ``z``, of ``value`` and of the bias; with an ``activation``, value is what it made of ``value``."""
    dz, kind = torch.empty_like(z), None if activation is None else z.dtype
    dvalue = None if value is None else torch.empty_like(value, dtype=kind)
    grid, pieces, tile = elementwise_tile(*grad.shape)
    sums = z.new_empty(len(z), grid[0], dtype=torch.float32)
    arrays = (grad, z, bias, value, seeds, lengths, dz, dvalue, sums)
    flags = _flags(value, dropout, lengths) | {"ACTIVATION": activation}
    launch(_gate_backward, grid, *arrays, p, *grad.shape, pieces, **flags, **tile)
    return dz, dvalue, sums.sum(1)


def _flags(value: Tensor | None, dropout: str, lengths: Tensor | None) -> dict[str, Any]:
    return {"FULL": value is None, "DROPOUT": dropout, "PADDED": lengths is not None}


@jit
@no_type_check
def _activate(
    y, added, seeds, lengths, out, p, channels, batch, length, pieces,
    ACTIVATION: tl.constexpr, DROPOUT: tl.constexpr, ADD: tl.constexpr, PADDED: tl.constexpr,
    ROWS: tl.constexpr, STEPS: tl.constexpr,
):  # fmt: skip
    b, c, start = place(pieces, ROWS, STEPS)
    t = start + tl.arange(0, STEPS)
    inside = (c < channels)[:, None] & (t < length)[None, :]
    end = end_of(lengths, b, length, PADDED)
    true, some = inside & (t < end)[None, :], inside & (start < end)
    at = c.to(tl.int64)[:, None] * batch * length + (b * length + t)[None, :]
    x = _activation(read(y + at, some, true, PADDED), ACTIVATION)
    x = drop(x, seeds, 0, p, b, c, start, batch, length, DROPOUT, STEPS)
    if ADD:
        x += read(added + at, some, true, PADDED)
    tl.store(out + at, tl.where(true, x, 0.0), inside)


@jit
@no_type_check
def _activate_backward(
    grad, y, added, seeds, lengths, dy, again, p, channels, batch, length, pieces,
    ACTIVATION: tl.constexpr, DROPOUT: tl.constexpr, ADD: tl.constexpr, PADDED: tl.constexpr, AGAIN: tl.constexpr,
    ROWS: tl.constexpr, STEPS: tl.constexpr,
):  # fmt: skip
    b, c, start = place(pieces, ROWS, STEPS)
    t = start + tl.arange(0, STEPS)
    inside = (c < channels)[:, None] & (t < length)[None, :]
    end = end_of(lengths, b, length, PADDED)
    true, some = inside & (t < end)[None, :], inside & (start < end)
    at = c.to(tl.int64)[:, None] * batch * length + (b * length + t)[None, :]
    g = read(grad + at, some, true, PADDED)
    g = drop(g, seeds, 0, p, b, c, start, batch, length, DROPOUT, STEPS)
    if ACTIVATION != "none":
        g *= _slope(read(y + at, some, true, PADDED), ACTIVATION)
    if ADD:
        g += read(added + at, some, true, PADDED)
    tl.store(dy + at, g, inside)
    if AGAIN:
        x = _activation(read(y + at, some, true, PADDED), ACTIVATION)
        tl.store(again + at, drop(x, seeds, 0, p, b, c, start, batch, length, DROPOUT, STEPS), inside)


@jit
@no_type_check
def _gate(
    z, bias, value, added, seeds, lengths, out, p, channels, batch, length, pieces,
    FULL: tl.constexpr, DROPOUT: tl.constexpr, PADDED: tl.constexpr, ADD: tl.constexpr,
    ROWS: tl.constexpr, STEPS: tl.constexpr,
):  # fmt: skip
    b, c, start = place(pieces, ROWS, STEPS)
    t = start + tl.arange(0, STEPS)
    inside = (c < channels)[:, None] & (t < length)[None, :]
    end = end_of(lengths, b, length, PADDED)
    true, some = inside & (t < end)[None, :], inside & (start < end)
    at = c.to(tl.int64)[:, None] * batch * length + (b * length + t)[None, :]
    v, s = _value_and_share(z, bias, value, at, c, some, true, channels, batch * length, FULL, PADDED)
    x = drop(v * s, seeds, 1, p, b, c, start, batch, length, DROPOUT, STEPS)
    if ADD:
        x += read(added + at, some, true, PADDED)
    tl.store(out + at, tl.where(true, x, 0.0), inside)


@jit
@no_type_check
def _gate_backward(
    grad, z, bias, value, seeds, lengths, dz, dvalue, sums, p, channels, batch, length, pieces,
    FULL: tl.constexpr, DROPOUT: tl.constexpr, PADDED: tl.constexpr, ACTIVATION: tl.constexpr,
    ROWS: tl.constexpr, STEPS: tl.constexpr,
):  # fmt: skip
    b, c, start = place(pieces, ROWS, STEPS)
    t = start + tl.arange(0, STEPS)
    inside = (c < channels)[:, None] & (t < length)[None, :]
    end = end_of(lengths, b, length, PADDED)
    true, some = inside & (t < end)[None, :], inside & (start < end)
    at = c.to(tl.int64)[:, None] * batch * length + (b * length + t)[None, :]
    v, s = _value_and_share(z, bias, value, at, c, some, true, channels, batch * length, FULL, PADDED)
    if ACTIVATION is not None:
        v = drop(_activation(v, ACTIVATION), seeds, 0, p, b, c, start, batch, length, DROPOUT, STEPS)
    g = read(grad + at, some, true, PADDED)
    g = drop(g, seeds, 1, p, b, c, start, batch, length, DROPOUT, STEPS)
    dv, ds = g * s, g * v * s * (1 - s)
    part = sums + c * tl.num_programs(0) + tl.program_id(0)
    if FULL:
        tl.store(dz + at, dv, inside)
        tl.store(dz + _second_half(at, c, channels, batch * length), ds, inside)
        tl.store(part, tl.sum(dv, 1), c < channels)
        tl.store(part + channels * tl.num_programs(0), tl.sum(ds, 1), c < channels)
    else:
        tl.store(dvalue + at, dv, inside)
        tl.store(dz + at, ds, inside)
        tl.store(part, tl.sum(ds, 1), c < channels)


@jit
@no_type_check
def _value_and_share(z, bias, value, at, c, some, true, channels, total, FULL: tl.constexpr, PADDED: tl.constexpr):
    """What the gate may let through, and how much of it."""
    first = tl.load(bias + c, c < channels, other=0.0).to(tl.float32)[:, None]
    if FULL:
        v = read(z + at, some, true, PADDED) + first
        at = _second_half(at, c, channels, total)
        first = tl.load(bias + channels + c, c < channels, other=0.0).to(tl.float32)[:, None]
    else:
        v = read(value + at, some, true, PADDED)
    return v, _sigmoid(read(z + at, some, true, PADDED) + first)


@jit
@no_type_check
def _second_half(at, c, channels, total):
    """The same places in the rows of the linear map that open the gate."""
    return at + ((c + channels).to(tl.int64) - c)[:, None] * total


@jit
@no_type_check
def _sigmoid(x):
    small = tl.exp(-tl.abs(x))  # never overflows
    return tl.where(x >= 0, 1.0, small) / (1.0 + small)


@jit
@no_type_check
def _activation(y, ACTIVATION: tl.constexpr):
    if ACTIVATION == "gelu":
        return 0.5 * y * (1.0 + tl.erf(y * 0.7071067811865476))
    if ACTIVATION == "gelu_tanh":  # (1 + tanh a) / 2 = sigmoid(2 a)
        return y * _sigmoid(1.5957691216057308 * (y + 0.044715 * y * y * y))
    return y


@jit
@no_type_check
def _slope(y, ACTIVATION: tl.constexpr):
    if ACTIVATION == "gelu":
        return 0.5 * (1.0 + tl.erf(y * 0.7071067811865476)) + y * 0.3989422804014327 * tl.exp(-0.5 * y * y)
    s = _sigmoid(1.5957691216057308 * (y + 0.044715 * y * y * y))
    return s + y * s * (1.0 - s) * 1.5957691216057308 * (1.0 + 3 * 0.044715 * y * y)
