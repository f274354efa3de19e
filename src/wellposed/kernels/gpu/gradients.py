"""Gradients of inputs and tables of all chunks at once, from states and their adjoints at hand. docs/devdocs/gpu.md"""

from __future__ import annotations

from typing import no_type_check

import torch
import triton.language as tl
from torch import Tensor

from wellposed.kernels.gpu.launches import launch
from wellposed.kernels.gpu.outputs import Tile, outputs, spread, toeplitz
from wellposed.kernels.gpu.pieces import (
    Norm,
    Sizes,
    carry_of,
    dot,
    ends_of,
    fold_of,
    jit,
    norm_of,
    normalised,
    read_of,
)

_PIECE = 8  # rows of a table that a program adds up
# By precision and number of directions.
_TILES = {
    ("tf32", 1): Tile(64, 4, 1),
    ("tf32", 2): Tile(64, 4, 1),
    ("tf32x3", 1): Tile(32, 4, 1),
    ("tf32x3", 2): Tile(32, 4, 2),
    ("bf16", 1): Tile(64, 4, 2),
    ("bf16", 2): Tile(32, 4, 2),
}
# Where the gradient of the input comes with those of the tables, from one read of everything: elsewhere registers run
# out, or it was no faster.
_TOGETHER = {("tf32", 1), ("bf16", 1), ("bf16", 2)}


@jit
@no_type_check
def _leave_sums(sums, dw, db, norm, h, H):
    """Of a program, for the gradients of weight and bias: ``(2, channel, program)``."""
    at = sums + h * tl.num_programs(1) + tl.program_id(1)
    tl.store(at, tl.sum(dw, 0) * tl.load(norm + H + h))  # by 1 / deviation
    tl.store(at + H * tl.num_programs(1), tl.sum(db, 0))


@jit
@no_type_check
def _gradients(
    u, norm, lengths, sums, dy, states, adjoints, tables, du, partial,
    B, H, L, J, tiles, u_h, u_b, dy_h, dy_b, du_h, du_b,
    WITH_INPUT: tl.constexpr, T: tl.constexpr, S: tl.constexpr, ROWS: tl.constexpr, DIRECTIONS: tl.constexpr,
    HAS_STATES: tl.constexpr, NORMED: tl.constexpr, PADDED: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Sums over rows (sequence, chunk) of one channel for the tables, one partial sum a program."""
    h = tl.program_id(0).to(tl.int64)
    t = tl.arange(0, T)
    n = tl.arange(0, S)
    if WITH_INPUT:
        M = toeplitz(tables, h, H, T, DIRECTIONS, True)
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
    mean, factor, bias = norm_of(norm, h, H, NORMED)
    dw = tl.zeros((ROWS,), tl.float32)
    db = tl.zeros((ROWS,), tl.float32)
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
        true = there & (step < ends_of(lengths, b, r < B * J, L, PADDED)[:, None])
        given = U
        U = normalised(U, true, mean, factor, bias, NORMED)
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
            if NORMED:
                dw += tl.sum(tl.where(true, X * (given.to(tl.float32) - mean), 0.0), 1)
                db += tl.sum(tl.where(true, X, 0.0), 1)
    if WITH_INPUT and NORMED:
        _leave_sums(sums, dw, db, norm, h, H)
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
    PIECE: tl.constexpr,
):  # fmt: skip
    """Partial sums added up in their order; the second direction's tables are turned back in time.

    A program takes a few rows of one table: many small ones, for each only waits for memory.
    """
    h = tl.program_id(0).to(tl.int64)
    what = tl.program_id(1)
    row = tl.program_id(2) * PIECE + tl.arange(0, PIECE)
    t = tl.arange(0, T)
    n = tl.arange(0, S)
    own = partial + h * (T * T + 2 * DIRECTIONS * T * S)
    EACH: tl.constexpr = T * T + 2 * DIRECTIONS * T * S
    if what < DIRECTIONS:
        # Diagonal k of the Toeplitz matrix, above the main one for the first direction and below for the second.
        lag = row[None, :]
        s = t[:, None]
        slip = tl.where(what == 0, s * T + s + lag, (s + lag) * T + s)
        along = tl.zeros((T, PIECE), tl.float32)
        for p in range(parts):
            along += tl.load(own + p * H * EACH + slip, mask=s + lag < T, other=0.0)
        tl.store(tables + (what * H + h) * T + row, tl.sum(along, 0), mask=row < T)
    elif what < 2 * DIRECTIONS:
        d = what - DIRECTIONS
        turned = tl.where(d == 1, T - 1 - t, t)
        rows = tl.zeros((PIECE, T), tl.float32)
        if HAS_STATES:
            read = own + T * T + (2 * d + 1) * T * S + row[:, None] * T + turned[None, :]
            for p in range(parts):
                rows += tl.load(read + p * H * EACH, mask=(row < S)[:, None])
        to = read_of(tables, H, T, S, DIRECTIONS) + ((d * H + h) * S + row[:, None]) * T + t[None, :]
        tl.store(to, rows, mask=(row < S)[:, None])
    else:
        columns = tl.zeros((PIECE, S), tl.float32)
        if HAS_STATES:
            fold = own + T * T + row[:, None] * S + n[None, :]
            fold2 = own + T * T + 2 * T * S + (T - 1 - row)[:, None] * S + n[None, :]
            for p in range(parts):
                columns += tl.load(fold + p * H * EACH, mask=(row < T)[:, None])
                if DIRECTIONS == 2:
                    columns += tl.load(fold2 + p * H * EACH, mask=(row < T)[:, None])
        into = fold_of(tables, H, T, DIRECTIONS) + h * T * S
        if DENSE:
            tl.store(into + row[:, None] * S + n[None, :], columns, mask=(row < T)[:, None])
        else:  # as the chain rule reads it: a row for each mode, the last step first
            tl.store(into + n[None, :] * T + (T - 1 - row)[:, None], columns, mask=(row < T)[:, None])
        # The carry: as many rows as states, or one.
        ROWS: tl.constexpr = S if DENSE else 1
        turn = tl.zeros((PIECE, S), tl.float32)
        if HAS_STATES:
            walk = walked + (h * ROWS + row[:, None]) * S + n[None, :]
            for p in range(walks * DIRECTIONS):
                turn += tl.load(walk + p * H * ROWS * S, mask=(row < ROWS)[:, None], other=0.0)
        carry = carry_of(tables, H, T, S, DIRECTIONS) + (h * ROWS + row[:, None]) * S + n[None, :]
        tl.store(carry, turn, mask=(row < ROWS)[:, None])


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
    norm: Norm | None = None,
) -> tuple[Tensor, Tensor | None]:
    """Of ``u``, written into ``du``, and of the tables; ``walked`` are the partial sums for the carry.

    With ``norm`` it is ``u`` normalised whose gradient this is. Where that is at hand with ``u`` itself, the sums that
    the norm wants of both come with it.
    """
    (H, B, L), (directions, _, T, S, _, dense) = u.shape, sizes
    J, tile, together = -(-L // T), _TILES[precision, directions], (precision, directions) in _TOGETHER
    parts, tiles = spread(B * J, H, tile)
    partial = torch.empty(parts, H, T * T + 2 * directions * T * S, dtype=torch.float32, device=u.device)
    compiled_for, read = {"T": T, "S": S, "DIRECTIONS": directions, "HAS_STATES": states.numel() > 0}, norm or Norm()
    sums = torch.empty(2, H, parts, dtype=torch.float32, device=u.device) if norm and together else None
    launch(
        _gradients, (H, parts), u, *read[:2], sums, dy, states, adjoints, tables, du, partial, B, H, L, J, tiles,
        u.stride(0), u.stride(1), dy.stride(0), dy.stride(1), du.stride(0), du.stride(1), WITH_INPUT=together,
        ROWS=tile.rows, PRECISION=precision, num_warps=tile.warps, num_stages=tile.stages, **compiled_for, **read.flags,
    )  # fmt: skip
    found = torch.empty_like(tables)
    walks = 0 if walked is None else walked.shape[0]
    grid, flags = (H, 2 * directions + 1, max(T, S) // _PIECE), {"DENSE": dense, "PIECE": _PIECE, "num_warps": 4}
    launch(_summed, grid, partial, walked, found, H, parts, walks, **flags, **compiled_for)
    if not together:
        outputs(dy, adjoints, tables, sizes, du, adjoint=True, precision=precision)
    return found, sums
