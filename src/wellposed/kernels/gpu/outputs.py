"""Outputs of all chunks at once, and the gradients of inputs and tables, from states at hand. docs/devdocs/gpu.md"""

from __future__ import annotations

from typing import NamedTuple, no_type_check

import torch
import triton.language as tl
from torch import Tensor

from wellposed.kernels.gpu.pieces import Sizes, carry_of, dot, fold_of, jit, read_of
from wellposed.kernels.gpu.tiles import pipelined


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
    ("tf32", 1): Tile(64, 4, 1),
    ("tf32", 2): Tile(64, 4, 1),
    ("tf32x3", 1): Tile(32, 4, 1),
    ("tf32x3", 2): Tile(32, 4, 2),
    ("bf16", 1): Tile(32, 4, 2),
    ("bf16", 2): Tile(32, 4, 2),
}
# Where the gradient of the input comes with those of the tables, from one read of everything: elsewhere registers run
# out, or it was no faster.
_TOGETHER = {("tf32", 1), ("bf16", 2)}


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
    u, states, tables, y, B, H, L, J, tiles, u_h, u_b, y_h, y_b,
    T: tl.constexpr, S: tl.constexpr, ROWS: tl.constexpr, DIRECTIONS: tl.constexpr, ADJOINT: tl.constexpr,
    HAS_STATES: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """``y = u M + x W`` for rows (sequence, chunk) of one channel."""
    h = tl.program_id(0).to(tl.int64)
    t = tl.arange(0, T)
    n = tl.arange(0, S)
    M = _toeplitz(tables, h, H, T, DIRECTIONS, ADJOINT)
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
                X = tl.load(states + (h * 0 + H) * B * J * S + row, mask=(r < B * J)[:, None], other=0.0)
                Y += dot(X, W2, PRECISION)
        tl.store(y + h * y_h + b[:, None].to(tl.int64) * y_b + step, Y, mask=there)


@jit
@no_type_check
def _gradients(
    u, dy, states, adjoints, tables, du, partial,
    B, H, L, J, tiles, u_h, u_b, dy_h, dy_b, du_h, du_b,
    WITH_INPUT: tl.constexpr, T: tl.constexpr, S: tl.constexpr, ROWS: tl.constexpr, DIRECTIONS: tl.constexpr,
    HAS_STATES: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Sums over rows (sequence, chunk) of one channel for the tables, one partial sum a program."""
    h = tl.program_id(0).to(tl.int64)
    t = tl.arange(0, T)
    n = tl.arange(0, S)
    if WITH_INPUT:
        M = _toeplitz(tables, h, H, T, DIRECTIONS, True)
        if HAS_STATES:
            at = fold_of(tables, H, T, DIRECTIONS) + h * T * S + n[:, None]
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
                row += (h * 0 + H) * B * J * S
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
    # Partial sums, (program, channel, [inside, fold and read of each direction]).
    out = partial + (tl.program_id(1) * H + h) * (T * T + 2 * DIRECTIONS * T * S)
    tl.store(out + t[:, None] * T + t[None, :], inside)
    if HAS_STATES:
        out += T * T
        tl.store(out + t[:, None] * S + n[None, :], fold)
        tl.store(out + T * S + n[:, None] * T + t[None, :], read)
        if DIRECTIONS == 2:
            out += 2 * T * S
            tl.store(out + t[:, None] * S + n[None, :], fold2)
            tl.store(out + T * S + n[:, None] * T + t[None, :], read2)


@jit
@no_type_check
def _summed(
    partial, walked, tables, H, parts, walks,
    T: tl.constexpr, S: tl.constexpr, DIRECTIONS: tl.constexpr, HAS_STATES: tl.constexpr, DENSE: tl.constexpr,
):  # fmt: skip
    """Partial sums added up in their order; the second direction's tables are turned back in time."""
    h = tl.program_id(0).to(tl.int64)
    what = tl.program_id(1)
    t = tl.arange(0, T)
    n = tl.arange(0, S)
    SIZE: tl.constexpr = T * T + 2 * DIRECTIONS * T * S
    if what < DIRECTIONS:
        # Diagonal k of the Toeplitz matrix, above the main one for the first direction and below for the second.
        lag = t[None, :]
        s = t[:, None]
        slip = tl.where(what == 0, s * T + s + lag, (s + lag) * T + s)
        along = tl.zeros((T, T), tl.float32)
        for p in tl.range(parts, num_stages=3):
            along += tl.load(partial + (p * H + h) * SIZE + slip, mask=s + lag < T, other=0.0)
        tl.store(tables + (what * H + h) * T + t, tl.sum(along, 0))
    elif what < 2 * DIRECTIONS:
        d = what - DIRECTIONS
        turned = tl.where(d == 1, T - 1 - t, t)
        rows = tl.zeros((S, T), tl.float32)
        if HAS_STATES:
            for p in tl.range(parts, num_stages=3):
                at = partial + (p * H + h) * SIZE + T * T + (2 * d + 1) * T * S
                rows += tl.load(at + n[:, None] * T + turned[None, :])
        tl.store(read_of(tables, H, T, S, DIRECTIONS) + ((d * H + h) * S + n[:, None]) * T + t[None, :], rows)
    else:
        columns = tl.zeros((T, S), tl.float32)
        if HAS_STATES:
            for p in tl.range(parts, num_stages=3):
                at = partial + (p * H + h) * SIZE + T * T + n[None, :]
                columns += tl.load(at + t[:, None] * S)
                if DIRECTIONS == 2:
                    columns += tl.load(at + 2 * T * S + (T - 1 - t)[:, None] * S)
        fold = fold_of(tables, H, T, DIRECTIONS) + h * T * S
        if DENSE:
            tl.store(fold + t[:, None] * S + n[None, :], columns)
        else:  # as the chain rule reads it: a row for each mode, the last step first
            tl.store(fold + n[None, :] * T + (T - 1 - t)[:, None], columns)
        turn = tl.zeros((S,), tl.float32)
        for row in range(S if DENSE else 1):
            turn = tl.zeros((S,), tl.float32)
            if HAS_STATES:
                for p in range(walks * DIRECTIONS):
                    turn += tl.load(walked + ((p * H + h) * (S if DENSE else 1) + row) * S + n)
            tl.store(carry_of(tables, H, T, S, DIRECTIONS) + (h * (S if DENSE else 1) + row) * S + n, turn)


def _spread(rows: int, channels: int, tile: Tile) -> tuple[int, int]:
    """Programs a channel, and tiles in each."""
    tiles = -(-rows // tile.rows)
    each = max(1, tiles * channels // _PROGRAMS)
    return -(-tiles // each), each


def outputs(
    u: Tensor, states: Tensor, tables: Tensor, sizes: Sizes, y: Tensor, *, adjoint: bool, precision: str
) -> None:
    """Written into ``y``, ``(channel, batch, length)``; ``adjoint``: gradients of inputs from those of outputs."""
    (H, B, L), directions, T = u.shape, sizes.directions, sizes.steps
    J, tile = -(-L // T), _OUTPUTS[precision, directions]
    programs, tiles = _spread(B * J, H, tile)
    compiled_for = (precision, T, sizes.state, directions, adjoint)

    def start(stages: int) -> None:
        _outputs[(H, programs)](
            u, states, tables, y, B, H, L, J, tiles, u.stride(0), u.stride(1), y.stride(0), y.stride(1),
            T=T, S=sizes.state, ROWS=tile.rows, DIRECTIONS=directions, ADJOINT=adjoint, HAS_STATES=states.numel() > 0,
            PRECISION=precision, num_warps=tile.warps, num_stages=stages,
        )  # fmt: skip

    pipelined(start, tile.stages, "outputs", *compiled_for)


def gradients(
    u: Tensor,
    dy: Tensor,
    states: Tensor,
    adjoints: Tensor,
    walked: Tensor | None,
    tables: Tensor,
    sizes: Sizes,
    du: Tensor,
    *,
    precision: str,
) -> Tensor:
    """Of ``u``, written into ``du``, and of the tables; ``walked`` are the partial sums for the carry."""
    (H, B, L), (directions, _, T, S, _, dense) = u.shape, sizes
    J, tile, together = -(-L // T), _GRADIENTS[precision, directions], (precision, directions) in _TOGETHER
    parts, tiles = _spread(B * J, H, tile)
    partial = torch.empty(parts, H, T * T + 2 * directions * T * S, dtype=torch.float32, device=u.device)
    compiled_for = {"T": T, "S": S, "DIRECTIONS": directions, "HAS_STATES": states.numel() > 0}

    def start(stages: int) -> None:
        _gradients[(H, parts)](
            u, dy, states, adjoints, tables, du, partial, B, H, L, J, tiles,
            u.stride(0), u.stride(1), dy.stride(0), dy.stride(1), du.stride(0), du.stride(1), WITH_INPUT=together,
            ROWS=tile.rows, PRECISION=precision, num_warps=tile.warps, num_stages=stages, **compiled_for,
        )  # fmt: skip

    pipelined(start, tile.stages, "gradients", precision, *compiled_for.values())
    found = torch.empty_like(tables)
    walks = 0 if walked is None else walked.shape[0]
    _summed[(H, 2 * directions + 1)](partial, walked, found, H, parts, walks, DENSE=dense, num_warps=8, **compiled_for)
    if not together:
        outputs(dy, adjoints, tables, sizes, du, adjoint=True, precision=precision)
    return found
