"""States at the start of every chunk, and their adjoints: a walk along the chunks. docs/devdocs/gpu.md"""

from __future__ import annotations

from typing import no_type_check

import torch
import triton.language as tl
from torch import Tensor

from wellposed.kernels.gpu.launches import launch
from wellposed.kernels.gpu.pieces import Norm, Sizes, carry_of, dot, ends_of, fold_of, jit, norm_of, normalised, read_of

_PROGRAMS = 512  # segments are added until there are so many, or 4 chunks in each
_ENOUGH = 96  # programs that no segments are added to: to walk twice along the chunks costs more than it gains
_FEW = 160  # programs that have a multiprocessor to themselves, and the more time to wait for what they read
_STAGES = {"tf32": 4, "tf32x3": 3, "bf16": 4}
_STAGES_OF_FEW = {"tf32": 8, "tf32x3": 3, "bf16": 8}


def _tile(batch: int, channels: int, *, narrow: bool = False) -> tuple[int, int]:
    """Sequences a program, and warps: many at once where that leaves every multiprocessor two programs."""
    wide = batch > 32 and channels * -(-batch // 64) >= 256 and not narrow
    return (64, 4) if wide else (16, 2)


@jit
@no_type_check
def _walk(
    u, norm, lengths, tables, start, ends, states, others, end, partial, B, H, L, J, K, u_h, u_b,
    T: tl.constexpr, S: tl.constexpr, BATCH: tl.constexpr, DIRECTIONS: tl.constexpr, DENSE: tl.constexpr,
    ADJOINT: tl.constexpr, HAS_START: tl.constexpr, ENDS_ONLY: tl.constexpr, SEGMENTS: tl.constexpr,
    HAS_END: tl.constexpr, NORMED: tl.constexpr, PADDED: tl.constexpr, PRECISION: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """``x <- carry x + u_c table`` from chunk to chunk, x written down before each.

    The second direction walks from the end, with its tables turned in time, and so does the adjoint of the first. It
    also sums the gradient of the carry, from the states (``others``) it meets. States are ``[Re, Im]`` in halves, or
    the coordinates of a dense matrix.
    """
    h = tl.program_id(0).to(tl.int64)
    d = tl.program_id(2) % DIRECTIONS
    segment = tl.program_id(2) // DIRECTIONS
    b = tl.program_id(1) * BATCH + tl.arange(0, BATCH)
    rows = (b < B)[:, None]
    t = tl.arange(0, T)
    turned = tl.where(d == 1, T - 1 - t, t)
    HALF: tl.constexpr = S if DENSE else S // 2
    n = tl.arange(0, HALF)
    carry = carry_of(tables, H, T, S, DIRECTIONS)
    if ADJOINT:  # the read-out, (direction, channel, state, T)
        at = read_of(tables, H, T, S, DIRECTIONS) + ((d * H + h) * S + n[None, :]) * T + turned[:, None]
        other_half = HALF * T
    else:  # the fold, (channel, T, state)
        at = fold_of(tables, H, T, DIRECTIONS) + (h * T + turned[:, None]) * S + n[None, :]
        other_half = HALF
    Fr = tl.load(at)
    if not DENSE:
        Fi = tl.load(at + other_half)
        lr = tl.load(carry + h * S + n)[None, :]
        li = tl.load(carry + h * S + HALF + n)[None, :]
        if ADJOINT:
            li = -li
    else:
        # x <- x A^T, and r <- r A for the adjoint.
        m = tl.arange(0, S)
        square = m[:, None] * S + n[None, :] if ADJOINT else n[None, :] * S + m[:, None]
        A = tl.load(carry + h * S * S + square)
    into = ((d * H + h) * B + b[:, None]) * S + n[None, :]  # of arrays (direction, channel, batch, state)
    xr = tl.zeros((BATCH, HALF), tl.float32)
    xi = tl.zeros((BATCH, HALF), tl.float32)
    if not ENDS_ONLY:
        if HAS_START:
            if d == 0:
                xr = tl.load(start + into, mask=rows, other=0.0)
                if not DENSE:
                    xi = tl.load(start + into + HALF, mask=rows, other=0.0)
        if SEGMENTS:
            size = DIRECTIONS * H * B * S
            if DENSE:
                jA = tl.load(carry + H * S * S + h * S * S + square)
            else:
                jr = tl.load(carry + (H + h) * S + n)[None, :]
                ji = tl.load(carry + (H + h) * S + HALF + n)[None, :]
                if ADJOINT:
                    ji = -ji
            for q in range(segment):
                er = tl.load(ends + q * size + into, mask=rows, other=0.0)
                if DENSE:
                    xr = tl.dot(xr, jA, input_precision="tf32x3") + er
                else:
                    ei = tl.load(ends + q * size + into + HALF, mask=rows, other=0.0)
                    turn = jr * xr - ji * xi + er
                    xi = jr * xi + ji * xr + ei
                    xr = turn
    backwards = (d == 1) != ADJOINT
    written = (((d * H + h) * B + b[:, None]) * J) * S + n[None, :]  # of (direction, channel, batch, chunk, state)
    base = h * u_h + b[:, None].to(tl.int64) * u_b + t[None, :]
    mean, factor, bias = norm_of(norm, h, H, NORMED)
    last = ends_of(lengths, b, b < B, L, PADDED)[:, None]
    if ADJOINT and not ENDS_ONLY:
        if DENSE:
            gA = tl.zeros((S, S), tl.float32)
        else:
            gr = tl.zeros((BATCH, HALF), tl.float32)
            gi = tl.zeros((BATCH, HALF), tl.float32)
    for k in tl.range(segment * K, tl.minimum(segment * K + K, J), num_stages=STAGES):
        c = tl.where(backwards, J - 1 - k, k)
        U = tl.load(u + base + c * T, mask=rows & (c * T + t < L)[None, :], other=0.0)
        U = normalised(U, rows & ((c * T + t)[None, :] < last), mean, factor, bias, NORMED)
        if not ENDS_ONLY:
            where = written + c.to(tl.int64) * S
            tl.store(states + where, xr, mask=rows)
            if not DENSE:
                tl.store(states + where + HALF, xi, mask=rows)
            if ADJOINT:
                zr = tl.load(others + where, mask=rows, other=0.0).to(tl.float32)
                if DENSE:
                    gA += tl.dot(tl.trans(xr), zr, input_precision="ieee")
                else:
                    zi = tl.load(others + where + HALF, mask=rows, other=0.0).to(tl.float32)
                    gr += zr * xr + zi * xi
                    gi += zr * xi - zi * xr
        if DENSE:
            # A state is rounded again at every chunk, which matrices far from normal amplify: three passes always.
            xr = tl.dot(xr, A, input_precision="tf32x3") + dot(U, Fr, PRECISION)
        else:
            turn = lr * xr - li * xi + dot(U, Fr, PRECISION)
            xi = lr * xi + li * xr + dot(U, Fi, PRECISION)
            xr = turn
    if ENDS_ONLY:
        left = ends + segment * DIRECTIONS * H * B * S + into
        tl.store(left, xr, mask=rows)
        if not DENSE:
            tl.store(left + HALF, xi, mask=rows)
    else:
        if ADJOINT:
            piece = ((segment * tl.num_programs(1) + tl.program_id(1)) * DIRECTIONS + d) * H + h
            if DENSE:
                tl.store(partial + piece * S * S + m[:, None] * S + n[None, :], gA)
            else:
                tl.store(partial + piece * S + n, tl.sum(gr, 0))
                tl.store(partial + piece * S + HALF + n, tl.sum(gi, 0))
        if HAS_END:
            if d == 0 and segment * K + K >= J:
                tl.store(end + into, xr, mask=rows)
                if not DENSE:
                    tl.store(end + into + HALF, xi, mask=rows)


def chunks_in_segment(batch: int, channels: int, directions: int, chunks: int) -> int:
    """So many that a small batch fills the card too; 0 for one segment. A compiler is to leave the batch open."""
    if torch.compiler.is_compiling():
        return 64 if chunks > 64 else 0
    programs = channels * directions * -(-batch // _tile(batch, channels)[0])
    count = min(chunks // 4, _PROGRAMS // max(programs, 1))
    return -(-chunks // count) if count > 1 and programs < _ENOUGH else 0


def walk(
    u: Tensor,
    tables: Tensor,
    sizes: Sizes,
    start: Tensor | None = None,
    *,
    precision: str,
    states: Tensor | None = None,
    want_end: bool = False,
    norm: Norm | None = None,
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """States before every chunk ``(direction, channel, batch, chunk, state)`` of ``u``, ``(channel, batch, length)``.

    With ``states`` of the forward walk this is the adjoint one, and partial sums of the gradient of the carry come
    with it. ``want_end``: the state after the last chunk, of the first direction. ``norm`` is applied to what is read.
    """
    adjoint = states is not None
    (H, B, L), (directions, _, T, S, jump, dense) = u.shape, sizes
    # The adjoint in three passes holds so much that with many sequences registers run out.
    J, (batch, warps) = -(-L // T), _tile(B, H, narrow=adjoint and precision == "tf32x3")
    K, tiles = jump or J, -(-B // batch)
    count, read = -(-J // K), norm or Norm()
    few = H * tiles * directions * count <= _FEW
    new = {"dtype": torch.float32, "device": u.device}
    found = torch.empty(directions, H, B, J, S, dtype=u.dtype if norm is None else norm.dtype, device=u.device)
    ends = torch.empty(count - 1, directions, H, B, S, **new) if count > 1 else None
    end = torch.empty(H, B, S, **new) if want_end else None
    partial = torch.empty(count * tiles, directions, *sizes.shapes[3], **new) if adjoint else None

    def walk_along(segments: int, *, ends_only: bool) -> None:
        launch(
            _walk, (H, tiles, directions * segments), u, *read[:2], tables, start, ends, found, states, end, partial,
            B, H, L, J, K, u.stride(0), u.stride(1),
            T=T, S=S, BATCH=batch, DIRECTIONS=directions, DENSE=dense, ADJOINT=adjoint,
            HAS_START=start is not None, ENDS_ONLY=ends_only, SEGMENTS=count > 1, HAS_END=want_end,
            PRECISION=precision, STAGES=(_STAGES_OF_FEW if few else _STAGES)[precision],
            num_warps=4 if few else warps, **read.flags,
        )  # fmt: skip

    if count > 1:
        walk_along(count - 1, ends_only=True)
    walk_along(count, ends_only=False)
    return found, partial, end
