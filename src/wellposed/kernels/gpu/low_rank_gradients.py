"""The chain rule of ``low_rank``, in three kernels: from tables to chains, along the chains, and to the parameters.

The gradient of a complex number is that of its real part + i that of its imaginary part, as in ``tables``.
"""

from __future__ import annotations

from typing import no_type_check

import torch
import triton.language as tl
from torch import Tensor

from wellposed.kernels.gpu.launches import launch
from wellposed.kernels.gpu.low_rank import TILE, WARPS, contiguous, discretized, padded
from wellposed.kernels.gpu.modes import times
from wellposed.kernels.gpu.pieces import Sizes, carry_of, fold_of, jit, read_of
from wellposed.kernels.low_rank import LowRankParameters


@jit
@no_type_check
def _from_carry(
    others, g_carry, out, turned, T: tl.constexpr, S: tl.constexpr, COLUMNS: tl.constexpr, TERMS: tl.constexpr
):
    """Of ``A^t U``: the gradient of the carry times ``V D^(T-1-t)``. Of ``V D^t``: ``A^(T-1-t) U`` times it."""
    t = tl.arange(0, T)
    i = tl.arange(0, TERMS)
    for tile in tl.static_range(S // COLUMNS):
        m = tile * COLUMNS + tl.arange(0, COLUMNS)
        total = tl.zeros((T, COLUMNS), tl.float64)
        for first in range(0, S, TERMS):
            k = first + i
            x = tl.load(others + (T - 1 - t[:, None]) * S + k[None, :])
            G = tl.load(g_carry + tl.where(turned, m[None, :] * S + k[:, None], k[:, None] * S + m[None, :]))
            total += tl.dot(x, G.to(tl.float64), input_precision="ieee", out_dtype=tl.float64)
        tl.store(out + t[:, None] * S + m[None, :], total.to(tl.float32))


@jit
@no_type_check
def _to_chains(
    chains, g_kernel, g_chains, H, T: tl.constexpr, S: tl.constexpr, RANK: tl.constexpr, DIRECTIONS: tl.constexpr,
    COLUMNS: tl.constexpr, TERMS: tl.constexpr,
):  # fmt: skip
    """What the tables say of each chain, a program for each channel and chain; nothing of columns after T steps."""
    g_fold = fold_of(g_kernel, H, T, DIRECTIONS)
    g_read = read_of(g_kernel, H, T, S, DIRECTIONS)
    h = tl.program_id(0).to(tl.int64)
    c = tl.program_id(1)
    t = tl.arange(0, T)
    s = tl.arange(0, S)
    LONG: tl.constexpr = (T + 1) * S
    own = chains + h * (2 * RANK + 1 + DIRECTIONS) * LONG
    out = g_chains + (h * (2 * RANK + 1 + DIRECTIONS) + c) * LONG
    if c < 2 * RANK:
        other = own + tl.where(c < RANK, c + RANK, c - RANK) * LONG
        _from_carry(other, carry_of(g_kernel, H, T, S, DIRECTIONS) + h * S * S, out, c < RANK, T, S, COLUMNS, TERMS)
    elif c == 2 * RANK:
        g = tl.load(g_fold + (h * T + T - 1 - t[:, None]) * S + s[None, :]).to(tl.float64)
        for d in tl.static_range(DIRECTIONS):
            row = tl.load(own + (2 * RANK + 1 + d) * LONG + s)
            g += tl.load(g_kernel + (d * H + h) * T + t)[:, None] * row[None, :]
        tl.store(out + t[:, None] * S + s[None, :], g.to(tl.float32))
    else:
        d = c - 2 * RANK - 1
        later = tl.load(g_read + ((d * H + h) * S + s[None, :]) * T + t[:, None])
        tl.store(out + (t[:, None] + 1) * S + s[None, :], later)
        columns = tl.load(own + 2 * RANK * LONG + t[:, None] * S + s[None, :])
        k = tl.load(g_kernel + (d * H + h) * T + t)
        tl.store(out + s, tl.sum(k[:, None] * columns, 0).to(tl.float32))


@jit
@no_type_check
def _along_chains(
    chains, bars, g_chains, found, T: tl.constexpr, RANK: tl.constexpr, RP: tl.constexpr, NP: tl.constexpr,
    CHAINS: tl.constexpr,
):  # fmt: skip
    """From the last step to the first; a program for each channel and chain.

    A chain is ``x <- D x + E (F x)``, where E and F are U and V, or V and U for rows, which take the transpose of D.
    """
    h = tl.program_id(0).to(tl.int64)
    c = tl.program_id(1)
    n = tl.arange(0, NP)[None, :]
    j = tl.arange(0, RP)[:, None]
    S: tl.constexpr = 2 * NP
    LONG: tl.constexpr = (T + 1) * S
    row = (c >= RANK) & (c != 2 * RANK)
    free = row & (c < 2 * RANK)
    lr = tl.load(bars + h * S + 2 * n)
    li = tl.load(bars + h * S + 2 * n + 1)
    li = tl.where(row, -li, li)
    own = chains + h * CHAINS * LONG
    fed = (j < RANK) & (n >= 0) & (free == 0)
    e_at = own + (j + tl.where(row, RANK, 0)) * LONG + 2 * n
    f_at = own + (j + tl.where(row, 0, RANK)) * LONG + 2 * n
    er = tl.load(e_at, mask=fed, other=0.0)
    ei = tl.load(e_at + 1, mask=fed, other=0.0)
    fr = tl.load(f_at, mask=fed, other=0.0)
    fi = tl.load(f_at + 1, mask=fed, other=0.0)

    x_at = own + c * LONG + 2 * n
    g_at = g_chains + (h * CHAINS + c) * LONG + 2 * n
    reads = row & (free == 0) & (n >= 0)  # the others end a step earlier
    pr = tl.load(g_at + T * S, mask=reads, other=0.0).to(tl.float64)
    pi = tl.load(g_at + T * S + 1, mask=reads, other=0.0).to(tl.float64)
    for_lr = lr * 0.0
    for_li = lr * 0.0
    for_er = er * 0.0
    for_ei = er * 0.0
    for_fr = er * 0.0
    for_fi = er * 0.0
    xr = tl.load(x_at + (T - 1) * S)
    xi = tl.load(x_at + (T - 1) * S + 1)
    gr = tl.load(g_at + (T - 1) * S)
    gi = tl.load(g_at + (T - 1) * S + 1)
    for back in range(T):
        # What the next step needs is asked for a step ahead; the last asks for the first again.
        t = tl.maximum(T - 2 - back, 0) * S
        next_xr = tl.load(x_at + t)
        next_xi = tl.load(x_at + t + 1)
        next_gr = tl.load(g_at + t)
        next_gi = tl.load(g_at + t + 1)
        for_lr += xr * pr + xi * pi
        for_li += xr * pi - xi * pr
        into = tl.sum(er * pr + ei * pi, 1)[:, None]
        out = tl.sum(fr * xr + fi * xi, 1)[:, None]
        for_er += out * pr
        for_ei += out * pi
        for_fr += into * xr
        for_fi += into * xi
        pr, pi = times(lr, -li, pr, pi)
        pr += tl.sum(into * fr, 0)[None, :] + gr
        pi += tl.sum(into * fi, 0)[None, :] + gi
        xr = next_xr
        xi = next_xi
        gr = next_gr
        gi = next_gi

    # (channel, chain, [start, D, U, V], state)
    at = found + (h * CHAINS + c) * (2 + 2 * RANK) * S + 2 * n
    tl.store(at, pr)
    tl.store(at + 1, pi)
    tl.store(at + S, for_lr)
    tl.store(at + S + 1, tl.where(row, -for_li, for_li))
    e_at = at + (2 + j + tl.where(row, RANK, 0)) * S
    f_at = at + (2 + j + tl.where(row, 0, RANK)) * S
    ranks = (j < RANK) & (n >= 0)
    alone = tl.where(free, 0.0, 1.0)
    tl.store(e_at, for_er * alone, mask=ranks)
    tl.store(e_at + 1, for_ei * alone, mask=ranks)
    tl.store(f_at, for_fr * alone, mask=ranks)
    tl.store(f_at + 1, for_fi * alone, mask=ranks)


@jit
@no_type_check
def _to_parameters(
    A_log_real, A_imag, P, B, log_dt, weight, g_kernel, found,
    g_log_real, g_imag, g_P, g_B, g_C, g_log_dt, g_D, H, N, systems,
    T: tl.constexpr, LOG_T: tl.constexpr, RANK: tl.constexpr, RP: tl.constexpr, NP: tl.constexpr,
    DIRECTIONS: tl.constexpr, HAS_D: tl.constexpr,
):  # fmt: skip
    """Sums over the chains, then kernels/woodbury.py from the last step to the first; a program for each channel."""
    h = tl.program_id(0).to(tl.int64)
    n = tl.arange(0, NP)[None, :]
    j = tl.arange(0, RP)[:, None]
    there = n < N
    S: tl.constexpr = 2 * NP
    CHAINS: tl.constexpr = 2 * RANK + 1 + DIRECTIONS
    LONG: tl.constexpr = (2 + 2 * RANK) * S
    dt, re, im, ir, ii, pr, pi, br, bi, count, qr, qi, gpr, gpi, gbr, gbi, core, ur, ui, k = discretized(
        A_log_real, A_imag, P, B, log_dt, weight, h, N, systems, RANK, RP, NP
    )
    # The power of D in the carry: T lambda^(T-1) is the product of all squarings' 2 lambda^(2^i).
    sr = ir * 0.0 + 1.0
    si = ir * 0.0
    lr = 2 * ir - 1
    li = 2 * ii
    for _ in tl.static_range(LOG_T):
        sr, si = times(sr, si, 2 * lr, 2 * li)
        lr, li = times(lr, li, lr, li)
    g_carry = carry_of(g_kernel, H, T, S, DIRECTIONS) + h * S * S + 2 * n * S + 2 * n
    gr = (tl.load(g_carry) + tl.load(g_carry + S + 1)).to(tl.float64)
    gi = (tl.load(g_carry + S) - tl.load(g_carry + 1)).to(tl.float64)
    for_lr, for_li = times(sr, -si, gr, gi)

    own = found + h * CHAINS * LONG + 2 * n
    ranks = (j < RANK) & there
    for_ur = tl.load(own + j * LONG, mask=ranks, other=0.0)
    for_ui = tl.load(own + j * LONG + 1, mask=ranks, other=0.0)
    for_vr = tl.load(own + (RANK + j) * LONG, mask=ranks, other=0.0)
    for_vi = tl.load(own + (RANK + j) * LONG + 1, mask=ranks, other=0.0)
    for c in tl.static_range(CHAINS):
        at = own + c * LONG
        for_lr += tl.load(at + S)
        for_li += tl.load(at + S + 1)
        for_ur += tl.load(at + (2 + j) * S, mask=ranks, other=0.0)
        for_ui += tl.load(at + (2 + j) * S + 1, mask=ranks, other=0.0)
        for_vr += tl.load(at + (2 + RANK + j) * S, mask=ranks, other=0.0)
        for_vi += tl.load(at + (2 + RANK + j) * S + 1, mask=ranks, other=0.0)
    at = own + 2 * RANK * LONG
    for_br = tl.load(at)
    for_bi = tl.load(at + 1)
    for d in tl.static_range(DIRECTIONS):
        at += LONG
        c_at = g_C + ((d * H + h) * N + n) * 2
        tl.store(c_at, count * tl.load(at), mask=there)
        tl.store(c_at + 1, -count * tl.load(at + 1), mask=there)

    # B_bar = GB + dt/2 sum k U, k = Q GB
    for_k = dt / 2 * tl.sum(ur * for_br + ui * for_bi, 1)[:, None]
    for_gbr = for_br + tl.sum(for_k * qr, 0)[None, :]
    for_gbi = for_bi + tl.sum(for_k * qi, 0)[None, :]
    for_ur += dt / 2 * k * for_br
    for_ui += dt / 2 * k * for_bi
    # U = -core GP / dt, core^-1 = I + GP Q^T / 2
    for_gpr = -tl.sum(core[:, :, None] * for_ur[:, None, :], 0) / dt
    for_gpi = -tl.sum(core[:, :, None] * for_ui[:, None, :], 0) / dt
    inner = tl.sum(for_gpr[:, None, :] * gpr[None, :, :] + for_gpi[:, None, :] * gpi[None, :, :], 2)
    for_core = -tl.sum(inner[:, None, :] * core[None, :, :], 2) / 2
    for_dt = (tl.sum(k * for_k) - tl.sum(ur * for_ur + ui * for_ui)) / dt
    for_qr = for_k * gbr + tl.sum(for_core[:, :, None] * gpr[:, None, :], 0)
    for_qi = for_k * gbi + tl.sum(for_core[:, :, None] * gpi[:, None, :], 0)
    for_gpr += tl.sum(for_core[:, :, None] * qr[None, :, :], 1)
    for_gpi += tl.sum(for_core[:, :, None] * qi[None, :, :], 1)
    # V is the conjugate of the gain times Q, GP and GB are the gain times P and B
    ar, ai = times(dt * ir, dt * ii, for_vr, for_vi)
    for_qr += ar
    for_qi += ai
    ar, ai = times(dt * ir, -dt * ii, for_gpr, for_gpi)
    p_at = g_P + ((h * N + n) * RANK + j) * 2
    tl.store(p_at, ar + count * for_qr, mask=ranks)
    tl.store(p_at + 1, ai + count * for_qi, mask=ranks)
    ar, ai = times(dt * ir, -dt * ii, for_gbr, for_gbi)
    tl.store(g_B + (h * N + n) * 2, ar, mask=there)
    tl.store(g_B + (h * N + n) * 2 + 1, ai, mask=there)
    ar, ai = times(pr, -pi, for_gpr, for_gpi)
    cr, ci = times(for_vr, -for_vi, qr, qi)
    gr, gi = times(br, -bi, for_gbr, for_gbi)
    gr += tl.sum(ar + cr, 0)[None, :]
    gi += tl.sum(ai + ci, 0)[None, :]
    # gain = dt inverse, lambda_bar = 2 inverse - 1
    sr, si = times(ir, -ii, ir, -ii)
    sr, si = times(sr, si, dt * gr + 2 * for_lr, dt * gi + 2 * for_li)  # for dt/2 lambda
    tl.store(g_log_real + h * N + n, re * dt / 2 * sr, mask=there)
    tl.store(g_imag + h * N + n, dt / 2 * si, mask=there)
    slopes = ir * gr + ii * gi + (re * sr + im * si) / 2
    tl.store(g_log_dt + h, dt * (for_dt + tl.sum(tl.where(there, slopes, 0.0))))
    if HAS_D:  # the skip is part of the first value of the first direction's kernel
        tl.store(g_D + h, tl.load(g_kernel + h * T))


def tables_backward(
    system: LowRankParameters, D: Tensor | None, chains: Tensor, bars: Tensor, sizes: Sizes, gradient: Tensor
) -> list[Tensor | None]:
    """Gradients of ``A_log_real, A_imag, P, B, C, log_dt``, and of ``D``."""
    A_log_real, A_imag, P, B, C, log_dt, weight = contiguous(system)
    (directions, H, T, S, _, _), (systems, N), rank = sizes, A_imag.shape, system.rank
    count, vectors = chains.shape[1], {"RANK": rank, "RP": padded(rank), "NP": S // 2, "num_warps": 1}
    g_chains = torch.empty(chains.shape, dtype=torch.float32, device=C.device)
    launch(
        _to_chains, (H, count), chains, gradient, g_chains, H,
        T=T, S=S, RANK=rank, DIRECTIONS=directions, COLUMNS=min(S, TILE), TERMS=min(S, TILE), num_warps=WARPS,
    )  # fmt: skip
    found = torch.empty(H, count, 2 + 2 * rank, S, dtype=torch.float64, device=C.device)
    launch(_along_chains, (H, count), chains, bars, g_chains, found, T=T, CHAINS=count, **vectors)
    real, imag, g_P, g_B = (t.new_empty(H, *t.shape[1:]) for t in (A_log_real, A_imag, P, B))
    g_C, g_log_dt, g_D = torch.empty_like(C), torch.empty_like(log_dt), None if D is None else D.new_empty(H)
    launch(
        _to_parameters, (H,), A_log_real, A_imag, P, B, log_dt, weight, gradient, found,
        real, imag, g_P, g_B, g_C, g_log_dt, g_D, H, N, systems,
        T=T, LOG_T=T.bit_length() - 1, DIRECTIONS=directions, HAS_D=D is not None, **vectors,
    )  # fmt: skip
    if systems < H:  # channels take the systems in turn
        real, imag, g_P, g_B = (t.unflatten(0, (-1, systems)).sum(0) for t in (real, imag, g_P, g_B))
    return [real, imag, g_P, g_B, g_C, g_log_dt, g_D]
