"""The skip ``D u``, written where a product is to be added to it; backwards with the gradient of ``D``."""

from __future__ import annotations

from typing import Any, no_type_check

import torch
import triton
import triton.language as tl
from jaxtyping import Float
from torch import Tensor

from wellposed.kernels.device import interpreted
from wellposed.kernels.gpu.launches import launch
from wellposed.kernels.gpu.pieces import jit
from wellposed.kernels.gpu.sums import sum_of_parts

_ROWS, _CHANNELS, _WARPS = 64, 64, 8

Rows = Float[Tensor, "row channel"]


def write_skip(u: Rows, D: Float[Tensor, " channel"], out: Rows) -> None:
    """``out = D u``, whatever the strides."""
    grid, tile = _grid(u)
    launch(_skip, grid, u, u, out, D, None, *u.shape, *u.stride(), *u.stride(), *out.stride(), SUM=False, **tile)


def write_skip_gradient(dy: Rows, u: Rows, D: Float[Tensor, " channel"], out: Rows) -> Float[Tensor, " channel"]:
    """``out = D dy``, and the sum of ``dy u`` over rows: each is read once."""
    grid, tile = _grid(u)
    partial = torch.empty(grid[0], u.shape[1], dtype=torch.float32, device=u.device)
    launch(_skip, grid, dy, u, out, D, partial, *u.shape, *dy.stride(), *u.stride(), *out.stride(), SUM=True, **tile)
    return sum_of_parts(partial).to(D.dtype)


def _grid(u: Rows) -> tuple[tuple[int, int], dict[str, Any]]:
    rows, channels = (512 if interpreted() else _ROWS), min(_CHANNELS, int(triton.next_power_of_2(u.shape[1])))
    tile = {"ROWS": rows, "CHANNELS": channels, "num_warps": _WARPS}
    return (-(-u.shape[0] // rows), -(-u.shape[1] // channels)), tile


@jit
@no_type_check
def _skip(
    g,
    u,
    out,
    D,
    partial,
    N,
    H,
    g_row,
    g_channel,
    u_row,
    u_channel,
    out_row,
    out_channel,
    SUM: tl.constexpr,
    ROWS: tl.constexpr,
    CHANNELS: tl.constexpr,
):
    row = (tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]).to(tl.int64)
    h = (tl.program_id(1) * CHANNELS + tl.arange(0, CHANNELS)[None, :]).to(tl.int64)
    mask = (row < N) & (h < H)
    scale = tl.load(D + h, h < H, other=0.0).to(tl.float32)
    values = tl.load(g + row * g_row + h * g_channel, mask, other=0.0).to(tl.float32)
    tl.store(out + row * out_row + h * out_channel, (scale * values).to(out.dtype.element_ty), mask)
    if SUM:
        other = tl.load(u + row * u_row + h * u_channel, mask, other=0.0).to(tl.float32)
        total = tl.sum(values * other, 0)[None, :]
        tl.store(partial + tl.program_id(0).to(tl.int64) * H + h, total, h < H)
