"""Outputs of all chunks at once, and the gradients of inputs and tables, from states at hand. docs/devdocs/gpu.md"""

from __future__ import annotations

from typing import NamedTuple, no_type_check

import torch
import triton.language as tl
from torch import Tensor

from wellposed.kernels.gpu.pieces import Tables, dot, jit


class Tile(NamedTuple):
    """Chunks a program takes at a time, warps and stages, as measured on an H200 (benchmarks/gpu.py)."""

    rows: int
    warps: int
    stages: int


_PROGRAMS = 512  # some four for each multiprocessor, so that each loads its tables for several tiles
# By precision and number of directions.
_OUTPUTS = {
    ("tf32", 1): Tile(64, 4, 1),
    ("tf32", 2): Tile(64, 4, 3),
    ("tf32x3", 1): Tile(64, 4, 2),
    ("tf32x3", 2): Tile(64, 4, 1),
    ("bf16", 1): Tile(64, 4, 2),
    ("bf16", 2): Tile(64, 4, 3),
}
_GRADIENTS = {
    ("tf32", 1): Tile(64, 8, 1),
    ("tf32", 2): Tile(64, 8, 1),
    ("tf32x3", 1): Tile(32, 4, 1),
    ("tf32x3", 2): Tile(32, 4, 1),
    ("bf16", 1): Tile(32, 4, 2),
    ("bf16", 2): Tile(64, 8, 2),
}
# Whether the gradient of the input comes with those of the tables, from one read of everything: not where registers
# run out.
_TOGETHER = {
    ("tf32", 1): True,
    ("tf32", 2): False,
    ("tf32x3", 1): False,
    ("tf32x3", 2): False,
    ("bf16", 1): True,
    ("bf16", 2): True,
}


@jit
@no_type_check
def _toeplitz(kernel, h, H, T: tl.constexpr, DIRECTIONS: tl.constexpr, ADJOINT: tl.constexpr):
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
    u, states, kernel, table, y, B, H, L, J, tiles, u_h, u_b, y_h, y_b, table_h, table_t, table_s, table_d,
    T: tl.constexpr, S: tl.constexpr, ROWS: tl.constexpr, DIRECTIONS: tl.constexpr, ADJOINT: tl.constexpr,
    HAS_STATES: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """``y = u M + x W`` for rows (sequence, chunk) of one channel."""
    h = tl.program_id(0).to(tl.int64)
    t = tl.arange(0, T)
    n = tl.arange(0, S)
    M = _toeplitz(kernel, h, H, T, DIRECTIONS, ADJOINT)
    at = h * table_h + n[:, None] * table_s
    if HAS_STATES:
        W = tl.load(table + at + t[None, :] * table_t)
        if DIRECTIONS == 2:
            W2 = tl.load(table + table_d + at + (T - 1 - t)[None, :] * table_t)
    first = tl.program_id(1) * tiles
    for tile in range(first, first + tiles):
        r = tile * ROWS + tl.arange(0, ROWS)
        b = r // J
        c = r % J
        there = (r < B * J)[:, None] & ((c * T)[:, None] + t[None, :] < L)
        step = (c * T)[:, None] + t[None, :]
        U = tl.load(u + h * u_h + b[:, None].to(tl.int64) * u_b + step, mask=there, other=0.0)
        Y = dot(U, M, PRECISION)
        if HAS_STATES:
            row = (h * B * J + r)[:, None] * S + n[None, :]
            X = tl.load(states + row, mask=(r < B * J)[:, None], other=0.0)
            Y += dot(X, W, PRECISION)
            if DIRECTIONS == 2:
                X = tl.load(states + H.to(tl.int64) * B * J * S + row, mask=(r < B * J)[:, None], other=0.0)
                Y += dot(X, W2, PRECISION)
        tl.store(y + h * y_h + b[:, None].to(tl.int64) * y_b + step, Y, mask=there)


@jit
@no_type_check
def _gradients(
    u, dy, states, adjoints, kernel, table, du, g_inside, g_fold, g_read,
    B, H, L, J, tiles, u_h, u_b, dy_h, dy_b, du_h, du_b,
    WITH_INPUT: tl.constexpr, T: tl.constexpr, S: tl.constexpr, ROWS: tl.constexpr, DIRECTIONS: tl.constexpr,
    HAS_STATES: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Sums over rows (sequence, chunk) of one channel for the tables, one partial sum a program."""
    h = tl.program_id(0).to(tl.int64)
    t = tl.arange(0, T)
    n = tl.arange(0, S)
    if WITH_INPUT:
        M = _toeplitz(kernel, h, H, T, DIRECTIONS, True)
        if HAS_STATES:
            at = table + h * T * S + n[:, None]
            F = tl.load(at + t[None, :] * S)
            if DIRECTIONS == 2:
                F2 = tl.load(at + (T - 1 - t)[None, :] * S)
    inside = tl.zeros((T, T), tl.float32)
    if HAS_STATES:
        fold = tl.zeros((T, S), tl.float32)
        read = tl.zeros((S, T), tl.float32)
        if DIRECTIONS == 2:
            fold2 = tl.zeros((T, S), tl.float32)
            read2 = tl.zeros((S, T), tl.float32)
    first = tl.program_id(1) * tiles
    for tile in range(first, first + tiles):
        r = tile * ROWS + tl.arange(0, ROWS)
        b = r // J
        c = r % J
        alive = (r < B * J)[:, None]
        step = (c * T)[:, None] + t[None, :]
        there = alive & (step < L)
        U = tl.load(u + h * u_h + b[:, None].to(tl.int64) * u_b + step, mask=there, other=0.0)
        G = tl.load(dy + h * dy_h + b[:, None].to(tl.int64) * dy_b + step, mask=there, other=0.0)
        V = tl.trans(U)
        inside += dot(V, G, PRECISION)
        if HAS_STATES:
            row = (h * B * J + r)[:, None] * S + n[None, :]
            R = tl.load(adjoints + row, mask=alive, other=0.0)
            fold += dot(V, R, PRECISION)
            read += dot(tl.trans(tl.load(states + row, mask=alive, other=0.0)), G, PRECISION)
            if DIRECTIONS == 2:
                row += H.to(tl.int64) * B * J * S
                R2 = tl.load(adjoints + row, mask=alive, other=0.0)
                fold2 += dot(V, R2, PRECISION)
                read2 += dot(tl.trans(tl.load(states + row, mask=alive, other=0.0)), G, PRECISION)
        if WITH_INPUT:
            X = dot(G, M, PRECISION)
            if HAS_STATES:
                X += dot(R, F, PRECISION)
                if DIRECTIONS == 2:
                    X += dot(R2, F2, PRECISION)
            tl.store(du + h * du_h + b[:, None].to(tl.int64) * du_b + step, X, mask=there)
    p = tl.program_id(1)
    tl.store(g_inside + (p * H + h) * T * T + t[:, None] * T + t[None, :], inside)
    if HAS_STATES:
        p = p * DIRECTIONS * H + h
        tl.store(g_fold + p * T * S + t[:, None] * S + n[None, :], fold)
        tl.store(g_read + p * S * T + n[:, None] * T + t[None, :], read)
        if DIRECTIONS == 2:
            p += H
            tl.store(g_fold + p * T * S + t[:, None] * S + n[None, :], fold2)
            tl.store(g_read + p * S * T + n[:, None] * T + t[None, :], read2)


@jit
@no_type_check
def _summed(
    g_inside, g_fold, g_read, g_carry, kernel, fold, read, carry, H, parts, walks,
    T: tl.constexpr, S: tl.constexpr, DIRECTIONS: tl.constexpr, HAS_STATES: tl.constexpr, DENSE: tl.constexpr,
):  # fmt: skip
    """Partial sums added up in their order; the second direction's tables are turned back in time."""
    h = tl.program_id(0).to(tl.int64)
    what = tl.program_id(1)
    t = tl.arange(0, T)
    n = tl.arange(0, S)
    if what < DIRECTIONS:
        # Diagonal k of the Toeplitz matrix, above the main one for the first direction and below for the second.
        lag = t[None, :]
        s = t[:, None]
        slip = tl.where(what == 0, s * T + s + lag, (s + lag) * T + s)
        along = tl.zeros((T, T), tl.float32)
        for p in range(parts):
            along += tl.load(g_inside + (p * H + h) * T * T + slip, mask=s + lag < T, other=0.0)
        tl.store(kernel + (what * H + h) * T + t, tl.sum(along, 0))
    elif what < 2 * DIRECTIONS:
        d = what - DIRECTIONS
        turned = tl.where(d == 1, T - 1 - t, t)
        rows = tl.zeros((S, T), tl.float32)
        if HAS_STATES:
            for p in range(parts):
                rows += tl.load(g_read + (((p * DIRECTIONS + d) * H + h) * S + n[:, None]) * T + turned[None, :])
        tl.store(read + ((d * H + h) * S + n[:, None]) * T + t[None, :], rows)
    else:
        columns = tl.zeros((T, S), tl.float32)
        if HAS_STATES:
            for p in range(parts):
                at = g_fold + (p * DIRECTIONS * H + h) * T * S + n[None, :]
                columns += tl.load(at + t[:, None] * S)
                if DIRECTIONS == 2:
                    columns += tl.load(at + (H * T + T - 1 - t)[:, None] * S)
        tl.store(fold + (h * T + t[:, None]) * S + n[None, :], columns)
        if not DENSE:
            turn = tl.zeros((S,), tl.float32)
            if HAS_STATES:
                for p in range(walks * DIRECTIONS):
                    turn += tl.load(g_carry + (p * H + h) * S + n)
            tl.store(carry + h * S + n, turn)


def _spread(rows: int, channels: int, tile: Tile) -> tuple[int, int]:
    """Programs a channel, and tiles in each."""
    tiles = -(-rows // tile.rows)
    each = max(1, tiles * channels // _PROGRAMS)
    return -(-tiles // each), each


def outputs(u: Tensor, states: Tensor | None, tables: Tables, *, adjoint: bool, precision: str) -> Tensor:
    """``(channel, batch, length)`` like ``u``; ``adjoint`` makes the gradient of the input of that of the output."""
    (H, B, L), (directions, _, T) = u.shape, tables.kernel.shape
    J, tile = -(-L // T), _OUTPUTS[precision, directions]
    y = torch.empty(H, B, L, dtype=u.dtype, device=u.device)
    programs, tiles = _spread(B * J, H, tile)
    table = tables.fold if adjoint else tables.read
    # The fold is (channel, T, state), the read-out (direction, channel, state, T).
    axes = (table.stride(0), table.stride(1), table.stride(2), 0) if adjoint else table.stride()
    h, t, s, d = axes if adjoint else (axes[1], axes[3], axes[2], axes[0])
    _outputs[(H, programs)](
        u, states, tables.kernel, table, y, B, H, L, J, tiles,
        u.stride(0), u.stride(1), y.stride(0), y.stride(1), h, t, s, d,
        T=T, S=table.shape[2], ROWS=tile.rows, DIRECTIONS=directions, ADJOINT=adjoint, HAS_STATES=states is not None,
        PRECISION=precision, num_warps=tile.warps, num_stages=tile.stages,
    )  # fmt: skip
    return y


def gradients(
    u: Tensor,
    dy: Tensor,
    states: Tensor | None,
    adjoints: Tensor | None,
    walked: Tensor | None,
    tables: Tables,
    *,
    precision: str,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Of ``u`` and of ``kernel, fold, read, carry``; ``walked`` are the partial sums for the carry."""
    (H, B, L), (directions, _, T), S = u.shape, tables.kernel.shape, tables.fold.shape[2]
    J, tile = -(-L // T), _GRADIENTS[precision, directions]
    together = _TOGETHER[precision, directions]
    parts, tiles = _spread(B * J, H, tile)
    new = {"dtype": torch.float32, "device": u.device}
    du = torch.empty(H, B, L, dtype=u.dtype, device=u.device) if together else u
    g_inside, g_fold = torch.empty(parts, H, T, T, **new), torch.empty(parts, directions, H, T, S, **new)
    g_read = torch.empty(parts, directions, H, S, T, **new)
    sizes = {"T": T, "S": S, "DIRECTIONS": directions, "HAS_STATES": states is not None}
    _gradients[(H, parts)](
        u, dy, states, adjoints, tables.kernel, tables.fold, du, g_inside, g_fold, g_read, B, H, L, J, tiles,
        u.stride(0), u.stride(1), dy.stride(0), dy.stride(1), du.stride(0), du.stride(1), WITH_INPUT=together,
        ROWS=tile.rows, PRECISION=precision, num_warps=tile.warps, num_stages=tile.stages, **sizes,
    )  # fmt: skip
    found = [torch.empty(shape, **new) for shape in ((directions, H, T), (H, T, S), (directions, H, S, T), (H, S))]
    dense, walks = tables.carry.ndim == 3, 0 if walked is None else len(walked)
    _summed[(H, 2 * directions + 1)](
        g_inside, g_fold, g_read, walked, *found, H, parts, walks, DENSE=dense, num_warps=4, **sizes
    )
    if dense:
        found[3] = torch.zeros(H, S, S, **new) if walked is None else walked.sum((0, 1))
    du = du if together else outputs(dy, adjoints, tables, adjoint=True, precision=precision)
    return du, found[0], found[1], found[2], found[3]
