"""The tables of a chunk from the parameters of S4, diagonal plus low rank, in two kernels.

All of it in float64, converted once. Vectors go one step after another through the recurrence, each in a program of its
own, so that no system of equations is solved: the columns of ``U`` and ``B``, the rows ``C``, and the rows ``V``, which
go through the diagonal alone. They are called chains here. docs/devdocs/gpu.md
"""

from __future__ import annotations

from typing import no_type_check

import torch
import triton.language as tl
from torch import Tensor

from wellposed.kernels.gpu.launches import launch
from wellposed.kernels.gpu.modes import times
from wellposed.kernels.gpu.pieces import Sizes, carry_of, fold_of, jit, read_of
from wellposed.kernels.low_rank import LowRankParameters

LARGEST_RANK = 4
"""Of LegT it is 2, else 1."""
TILE = 32  # columns of a product in float64, and how many terms it sums at a time
WARPS = 4  # of a program with matrices; one with vectors has one warp, whose sums need no barrier


@jit
@no_type_check
def _inverse_of_one_plus(small, RP: tl.constexpr):
    """By elimination without a search for pivots: the symmetric part of the matrix is at least I."""
    i = tl.arange(0, RP)[:, None]
    j = tl.arange(0, RP)[None, :]
    found = tl.where(i == j, 1.0, 0.0).to(tl.float64) + small * 0.0
    left = found + small
    for p in tl.static_range(RP):
        pivot = tl.sum(tl.where((i == p) & (j == p), left, 0.0))
        column = tl.sum(tl.where(j == p, left, 0.0), 1)[:, None]
        row = tl.sum(tl.where(i == p, left, 0.0), 0)[None, :] / pivot
        own = tl.sum(tl.where(i == p, found, 0.0), 0)[None, :] / pivot
        left = tl.where(i == p, row, left - column * row)
        found = tl.where(i == p, own, found - column * own)
    return found


@jit
@no_type_check
def discretized(
    A_log_real, A_imag, P, B, log_dt, weight, h, N, systems, RANK: tl.constexpr, RP: tl.constexpr, NP: tl.constexpr
):
    """What kernels/woodbury.py computes of a channel, with all that its chain rule needs.

    Modes are a row ``(1, NP)``, vectors of the low rank ``(RP, NP)``, filled up with zeros.
    """
    n = tl.arange(0, NP)[None, :]
    j = tl.arange(0, RP)[:, None]
    there = n < N
    at = (h % systems) * N + n
    dt = tl.exp(tl.load(log_dt + h).to(tl.float64))
    re = -tl.exp(tl.load(A_log_real + at, mask=there, other=0.0).to(tl.float64))
    im = tl.load(A_imag + at, mask=there, other=0.0).to(tl.float64)
    x = 1 - re * dt / 2
    y = im * dt / 2
    size = x * x + y * y
    ir = x / size  # 1 / (1 - dt/2 lambda)
    ii = y / size
    own = there & (j < RANK)
    pr = tl.load(P + (at * RANK + j) * 2, mask=own, other=0.0).to(tl.float64)
    pi = tl.load(P + (at * RANK + j) * 2 + 1, mask=own, other=0.0).to(tl.float64)
    br = tl.load(B + 2 * at, mask=there, other=0.0).to(tl.float64)
    bi = tl.load(B + 2 * at + 1, mask=there, other=0.0).to(tl.float64)
    count = tl.load(weight + n, mask=there, other=0.0).to(tl.float64)
    qr = count * pr
    qi = count * pi
    gpr, gpi = times(dt * ir, dt * ii, pr, pi)
    gbr, gbi = times(dt * ir, dt * ii, br, bi)
    small = tl.sum(gpr[:, None, :] * qr[None, :, :] + gpi[:, None, :] * qi[None, :, :], 2) / 2
    core = _inverse_of_one_plus(small, RP)
    ur = -tl.sum(core[:, :, None] * gpr[None, :, :], 1) / dt
    ui = -tl.sum(core[:, :, None] * gpi[None, :, :], 1) / dt
    k = tl.sum(qr * gbr + qi * gbi, 1)[:, None]
    return dt, re, im, ir, ii, pr, pi, br, bi, count, qr, qi, gpr, gpi, gbr, gbi, core, ur, ui, k


@jit
@no_type_check
def _chains(
    A_log_real, A_imag, P, B, C, log_dt, weight, chains, bars, H, N, systems,
    T: tl.constexpr, RANK: tl.constexpr, RP: tl.constexpr, NP: tl.constexpr,
):  # fmt: skip
    """A program for each channel and chain writes it down before every step and after the last."""
    h = tl.program_id(0).to(tl.int64)
    c = tl.program_id(1)  # U, then V, then B, then the C of each direction
    n = tl.arange(0, NP)[None, :]
    j = tl.arange(0, RP)[:, None]
    there = n < N
    dt, _, _, ir, ii, _, _, _, _, count, qr, qi, _, _, gbr, gbi, _, ur, ui, k = discretized(
        A_log_real, A_imag, P, B, log_dt, weight, h, N, systems, RANK, RP, NP
    )
    lr = tl.where(there, 2 * ir - 1, 0.0)
    li = tl.where(there, 2 * ii, 0.0)
    if c == 0:
        tl.store(bars + (h * NP + n) * 2, lr)
        tl.store(bars + (h * NP + n) * 2 + 1, li)
    vr, vi = times(dt * ir, -dt * ii, qr, qi)  # rows stand for conjugates

    xr = tl.sum(tl.where(j == c, ur, 0.0) + tl.where(j == c - RANK, vr, 0.0), 0)[None, :]
    xi = tl.sum(tl.where(j == c, ui, 0.0) + tl.where(j == c - RANK, vi, 0.0), 0)[None, :]
    if c == 2 * RANK:
        xr = gbr + dt / 2 * tl.sum(k * ur, 0)[None, :]
        xi = gbi + dt / 2 * tl.sum(k * ui, 0)[None, :]
    c_at = C + (((c - 2 * RANK - 1) * H + h) * N + n) * 2
    read = there & (c > 2 * RANK)
    xr += count * tl.load(c_at, mask=read, other=0.0).to(tl.float64)
    xi -= count * tl.load(c_at + 1, mask=read, other=0.0).to(tl.float64)

    # x <- D x + U (V x) for columns, x <- D^T x + V^T (U^T x) for rows.
    row = (c >= RANK) & (c != 2 * RANK)
    free = row & (c < 2 * RANK)
    li = tl.where(row, -li, li)
    fr = tl.where(row, ur, vr)
    fi = tl.where(row, ui, vi)
    er = tl.where(free, 0.0, tl.where(row, vr, ur))
    ei = tl.where(free, 0.0, tl.where(row, vi, ui))
    at = chains + (h * tl.num_programs(1) + c) * (T + 1) * 2 * NP + 2 * n
    for t in range(T):
        tl.store(at + t * 2 * NP, xr)
        tl.store(at + t * 2 * NP + 1, xi)
        s = tl.sum(fr * xr + fi * xi, 1)[:, None]
        xr, xi = times(lr, li, xr, xi)
        xr += tl.sum(s * er, 0)[None, :]
        xi += tl.sum(s * ei, 0)[None, :]
    tl.store(at + T * 2 * NP, xr)
    tl.store(at + T * 2 * NP + 1, xi)


@jit
@no_type_check
def _write_carry(
    chains, bars, carry, wide, h, tile,
    T: tl.constexpr, LOG_T: tl.constexpr, S: tl.constexpr, RANK: tl.constexpr, COLUMNS: tl.constexpr,
    TERMS: tl.constexpr, JUMPS: tl.constexpr,
):  # fmt: skip
    """Columns of ``A^T = D^T + sum over t of (A^t U) (V D^(T-1-t))``; ``chains`` are those of the channel."""
    s = tl.arange(0, S)[:, None]
    m = tile * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    t = tl.arange(0, TERMS)
    total = tl.zeros((S, COLUMNS), tl.float64)
    for j in tl.static_range(RANK):
        U = chains + j * (T + 1) * S
        V = chains + (RANK + j) * (T + 1) * S
        for first in range(0, T, TERMS):
            a = tl.load(U + (first + t[None, :]) * S + s)
            v = tl.load(V + (T - 1 - first - t[:, None]) * S + m)
            total += tl.dot(a, v, input_precision="ieee", out_dtype=tl.float64)
    # A mode stands for the block [[Re, -Im], [Im, Re]].
    pr = tl.load(bars + h * S + m // 2 * 2)
    pi = tl.load(bars + h * S + m // 2 * 2 + 1)
    for _ in tl.static_range(LOG_T):
        pr, pi = times(pr, pi, pr, pi)
    beside = tl.where(s == m + 1 - 2 * (m % 2), tl.where(m % 2 == 0, pi, -pi), 0.0)
    total += tl.where(s == m, pr, beside)
    tl.store(carry + (h * S + s) * S + m, total.to(tl.float32))
    if JUMPS:
        tl.store(wide + (h * S + s) * S + m, total)


@jit
@no_type_check
def _write_sequences(
    chains, D, kernel, h, d, H, T: tl.constexpr, S: tl.constexpr, RANK: tl.constexpr, DIRECTIONS: tl.constexpr,
    HAS_D: tl.constexpr,
):  # fmt: skip
    """Kernel values and read-out of a direction, and the fold with the first; ``chains`` are those of the channel."""
    fold = fold_of(kernel, H, T, DIRECTIONS)
    read = read_of(kernel, H, T, S, DIRECTIONS)
    t = tl.arange(0, T)
    s = tl.arange(0, S)
    columns = tl.load(chains + (2 * RANK * (T + 1) + t[:, None]) * S + s[None, :])
    rows = chains + (2 * RANK + 1 + d) * (T + 1) * S
    values = tl.sum(columns * tl.load(rows + s)[None, :], 1)
    if d == 0:
        tl.store(fold + (h * T + T - 1 - t[:, None]) * S + s[None, :], columns.to(tl.float32))
    if HAS_D:
        values += tl.where((t == 0) & (d == 0), tl.load(D + h).to(tl.float64), 0.0)
    tl.store(kernel + (d * H + h) * T + t, values.to(tl.float32))
    later = tl.load(rows + (t[:, None] + 1) * S + s[None, :]).to(tl.float32)
    tl.store(read + ((d * H + h) * S + s[None, :]) * T + t[:, None], later)


@jit
@no_type_check
def _tables(
    chains, bars, D, kernel, wide, H,
    T: tl.constexpr, LOG_T: tl.constexpr, S: tl.constexpr, RANK: tl.constexpr, DIRECTIONS: tl.constexpr,
    COLUMNS: tl.constexpr, TERMS: tl.constexpr, HAS_D: tl.constexpr, JUMPS: tl.constexpr,
):  # fmt: skip
    """A program for each channel and tile of the carry, or direction."""
    h = tl.program_id(0).to(tl.int64)
    which = tl.program_id(1)
    own = chains + h * (2 * RANK + 1 + DIRECTIONS) * (T + 1) * S
    if which < S // COLUMNS:
        carry = carry_of(kernel, H, T, S, DIRECTIONS)
        _write_carry(own, bars, carry, wide, h, which, T, LOG_T, S, RANK, COLUMNS, TERMS, JUMPS)
    else:
        _write_sequences(own, D, kernel, h, which - S // COLUMNS, H, T, S, RANK, DIRECTIONS, HAS_D)


def make_tables(system: LowRankParameters, D: Tensor | None, sizes: Sizes) -> list[Tensor]:
    """The tables in one array, and the chains and modes that their chain rule needs."""
    A_log_real, A_imag, P, B, C, log_dt, weight = contiguous(system)
    (directions, H, T, S, jump, _), N, rank = sizes, A_imag.shape[1], system.rank
    tables = torch.empty(sizes.total, dtype=torch.float32, device=C.device)
    chains, bars = kept_like(C, rank, sizes)
    wide = torch.empty(H, S, S, dtype=torch.float64, device=C.device) if jump else None
    launch(
        _chains, (H, chains.shape[1]), A_log_real, A_imag, P, B, C, log_dt, weight, chains, bars, H, N, A_imag.shape[0],
        T=T, RANK=rank, RP=padded(rank), NP=S // 2, num_warps=1,
    )  # fmt: skip
    columns = min(S, TILE)
    launch(
        _tables, (H, S // columns + directions), chains, bars, None if D is None else D.contiguous(), tables, wide, H,
        T=T, LOG_T=T.bit_length() - 1, S=S, RANK=rank, DIRECTIONS=directions, COLUMNS=columns, TERMS=min(T, TILE),
        HAS_D=D is not None, JUMPS=jump > 0, num_warps=WARPS,
    )  # fmt: skip
    if wide is not None:  # few sequences of many steps: a product for each binary digit is nothing beside them
        sizes.split(tables)[4].copy_(torch.linalg.matrix_power(wide, jump))
    return [tables, chains, bars]


def padded(rank: int) -> int:
    """The next power of 2, which shapes have to be."""
    return 1 << (rank - 1).bit_length()


def kept_like(C: Tensor, rank: int, sizes: Sizes) -> list[Tensor]:
    """Room for chains, ``(channel, chain, T + 1, state)``, and modes in discrete time, ``(channel, state)``."""
    directions, H, T, S, _, _ = sizes
    new = {"dtype": torch.float64, "device": C.device}
    return [torch.empty(H, 2 * rank + 1 + directions, T + 1, S, **new), torch.empty(H, S, **new)]


def contiguous(system: LowRankParameters) -> list[Tensor]:
    """The parameters as kernels take them."""
    s = system
    return [value.contiguous() for value in (s.A_log_real, s.A_imag, s.P, s.B, s.C, s.log_dt, s.weight)]
