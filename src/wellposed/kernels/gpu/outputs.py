"""Outputs of all chunks at once, from states at hand, or gradients of inputs. docs/devdocs/gpu.md"""

from __future__ import annotations

from typing import NamedTuple, no_type_check

import triton.language as tl
from torch import Tensor

from wellposed.kernels.gpu.launches import launch
from wellposed.kernels.gpu.pieces import Norm, Sizes, dot, ends_of, fold_of, jit, norm_of, normalised, read_of


class Tile(NamedTuple):
    """Chunks a program takes at a time, warps and stages, as measured on an H200 (benchmarks/gpu.py)."""

    rows: int
    warps: int
    stages: int


_PROGRAMS = 512  # some four for each multiprocessor, so that each loads its tables for several tiles
# By precision and number of directions.
_TILES = {
    ("tf32", 1): Tile(32, 4, 2),
    ("tf32", 2): Tile(32, 4, 3),
    ("tf32x3", 1): Tile(64, 4, 1),
    ("tf32x3", 2): Tile(64, 4, 1),
    ("bf16", 1): Tile(64, 4, 3),
    ("bf16", 2): Tile(64, 4, 3),
}


@jit
@no_type_check
def toeplitz(kernel, h, H, T: tl.constexpr, DIRECTIONS: tl.constexpr, ADJOINT: tl.constexpr):
    """``M[s, t]``: what step s adds to step t of the same chunk, in both directions; its transpose for the adjoint."""
    s = tl.arange(0, T)[:, None]
    t = tl.arange(0, T)[None, :]
    lag = s - t if ADJOINT else t - s
    M = tl.load(kernel + h * T + lag, mask=lag >= 0, other=0.0)
    if DIRECTIONS == 2:
        M += tl.load(kernel + (H + h) * T - lag, mask=lag <= 0, other=0.0)
    return M


@jit
@no_type_check
def _outputs(
    u, norm, lengths, states, tables, y, B, H, L, J, tiles, u_h, u_b, y_h, y_b,
    T: tl.constexpr, S: tl.constexpr, ROWS: tl.constexpr, DIRECTIONS: tl.constexpr, ADJOINT: tl.constexpr,
    HAS_STATES: tl.constexpr, NORMED: tl.constexpr, PADDED: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """``y = u M + x W`` for rows (sequence, chunk) of one channel."""
    h = tl.program_id(0).to(tl.int64)
    t = tl.arange(0, T)
    n = tl.arange(0, S)
    M = toeplitz(tables, h, H, T, DIRECTIONS, ADJOINT)
    if HAS_STATES:
        if ADJOINT:  # the fold, (channel, T, state), which both directions share
            at = fold_of(tables, H, T, DIRECTIONS) + h * T * S + n[:, None]
            W = tl.load(at + t[None, :] * S)
            if DIRECTIONS == 2:
                W2 = tl.load(at + (T - 1 - t)[None, :] * S)
        else:  # the read-out, (direction, channel, state, T)
            at = read_of(tables, H, T, S, DIRECTIONS) + (h * S + n[:, None]) * T
            W = tl.load(at + t[None, :])
            if DIRECTIONS == 2:
                W2 = tl.load(at + H * S * T + (T - 1 - t)[None, :])
    mean, factor, bias = norm_of(norm, h, H, NORMED)
    first = tl.program_id(1) * tiles
    for tile in range(first, first + tiles):
        r = tile * ROWS + tl.arange(0, ROWS)
        b = r // J
        c = r % J
        there = (r < B * J)[:, None] & ((c * T)[:, None] + t[None, :] < L)
        step = (c * T)[:, None] + t[None, :]
        true = there & (step < ends_of(lengths, b, r < B * J, L, PADDED)[:, None])
        U = tl.load(u + h * u_h + b[:, None].to(tl.int64) * u_b + step, mask=there, other=0.0)
        U = normalised(U, true, mean, factor, bias, NORMED)
        Y = dot(U, M, PRECISION)
        if HAS_STATES:
            row = (h * B * J + r)[:, None] * S + n[None, :]
            X = tl.load(states + row, mask=(r < B * J)[:, None], other=0.0)
            Y += dot(X, W, PRECISION)
            if DIRECTIONS == 2:
                X = tl.load(states + (h * 0 + H) * B * J * S + row, mask=(r < B * J)[:, None], other=0.0)
                Y += dot(X, W2, PRECISION)
        tl.store(y + h * y_h + b[:, None].to(tl.int64) * y_b + step, Y, mask=there)


def spread(rows: int, channels: int, tile: Tile) -> tuple[int, int]:
    """Programs a channel, and tiles in each."""
    tiles = -(-rows // tile.rows)
    each = max(1, tiles * channels // _PROGRAMS)
    return -(-tiles // each), each


def outputs(
    u: Tensor,
    states: Tensor,
    tables: Tensor,
    sizes: Sizes,
    y: Tensor,
    *,
    precision: str,
    adjoint: bool = False,
    norm: Norm | None = None,
) -> None:
    """Written into ``y``, ``(channel, batch, length)``; ``adjoint``: gradients of inputs from those of outputs."""
    (H, B, L), directions, T = u.shape, sizes.directions, sizes.steps
    J, tile = -(-L // T), _TILES[precision, directions]
    programs, tiles = spread(B * J, H, tile)
    norm = norm or Norm()
    launch(
        _outputs, (H, programs),
        u, *norm[:2], states, tables, y, B, H, L, J, tiles, u.stride(0), u.stride(1), y.stride(0), y.stride(1),
        T=T, S=sizes.state, ROWS=tile.rows, DIRECTIONS=directions, ADJOINT=adjoint, HAS_STATES=states.numel() > 0,
        PRECISION=precision, num_warps=tile.warps, num_stages=tile.stages, **norm.flags,
    )  # fmt: skip
