"""The tables of a chunk from the parameters of diagonal systems, in one kernel, and their chain rule in another.

Float64 inside: eigenvalues of one step are raised to whole powers by squaring, so that power t is off by t roundings
of float64, and converted once. docs/devdocs/gpu.md
"""

from __future__ import annotations

from typing import no_type_check

import torch
import triton.language as tl
from torch import Tensor

from wellposed.kernels.diagonal import DiagonalParameters
from wellposed.kernels.gpu.launches import launch
from wellposed.kernels.gpu.modes import derivatives, discretized, times
from wellposed.kernels.gpu.pieces import Sizes, carry_of, fold_of, jit, read_of

_MODES, _WARPS = 16, 8  # of a program of the chain rule: 16 modes x 64 steps of float64 stay in registers
_BLOCK = 128  # modes a program, one a thread


@jit
@no_type_check
def _power(lr, li, exponent, BITS: tl.constexpr):
    """``lambda^exponent`` for ``0 <= exponent < 2^BITS``, shapes broadcast."""
    pr = lr * 0.0 + exponent * 0.0 + 1.0
    pi = pr * 0.0
    for bit in tl.static_range(BITS):
        nr, ni = times(pr, pi, lr, li)
        take = ((exponent >> bit) & 1) == 1
        pr = tl.where(take, nr, pr)
        pi = tl.where(take, ni, pi)
        lr, li = times(lr, li, lr, li)
    return pr, pi


@jit
@no_type_check
def _modes(
    A_log_real, A_imag, B, log_dt, bars, H, N, systems, jump_steps,
    BLOCK: tl.constexpr, LOG_T: tl.constexpr, BILINEAR: tl.constexpr, JUMPS: tl.constexpr,
):  # fmt: skip
    """``lambda_bar``, ``B_bar``, ``lambda_bar^T`` and, to jump over segments, its power: a thread for each mode.

    Apart from the tables, where every thread of a program would repeat the sines of all its modes.
    """
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    there = i < H * N
    h = i // N
    at = (h % systems) * N + i % N
    dt = tl.exp(tl.load(log_dt + h, mask=there, other=0.0).to(tl.float64))
    x = -tl.exp(tl.load(A_log_real + at, mask=there, other=0.0).to(tl.float64)) * dt
    y = tl.load(A_imag + at, mask=there, other=0.0).to(tl.float64) * dt
    lr, li, gr, gi = discretized(x, y, BILINEAR)
    br = tl.load(B + 2 * at, mask=there, other=0.0).to(tl.float64)
    bi = tl.load(B + 2 * at + 1, mask=there, other=0.0).to(tl.float64)
    br, bi = times(gr * dt, gi * dt, br, bi)
    tl.store(bars + i, lr, mask=there)
    tl.store(bars + H * N + i, li, mask=there)
    tl.store(bars + 2 * H * N + i, br, mask=there)
    tl.store(bars + 3 * H * N + i, bi, mask=there)
    # Squared again and again, lambda becomes lambda^T.
    for _ in tl.static_range(LOG_T):
        lr, li = times(lr, li, lr, li)
    tl.store(bars + 4 * H * N + i, lr, mask=there)
    tl.store(bars + 5 * H * N + i, li, mask=there)
    if JUMPS:
        lr, li = _power(lr, li, jump_steps + i * 0, 24)
        tl.store(bars + 6 * H * N + i, lr, mask=there)
        tl.store(bars + 7 * H * N + i, li, mask=there)


@jit
@no_type_check
def _tables(
    bars, C, weight, D, kernel, H, N, T: tl.constexpr, LOG_T: tl.constexpr, NP: tl.constexpr,
    DIRECTIONS: tl.constexpr, HAS_D: tl.constexpr, JUMPS: tl.constexpr,
):  # fmt: skip
    """A program for each channel and direction; those of the first write what the directions share."""
    fold = fold_of(kernel, H, T, DIRECTIONS)
    read = read_of(kernel, H, T, 2 * NP, DIRECTIONS)
    carry = carry_of(kernel, H, T, 2 * NP, DIRECTIONS)
    h = tl.program_id(0)
    d = tl.program_id(1)
    e = tl.arange(0, T)[None, :]
    n = tl.arange(0, NP)
    there = n < N
    at = h * N + n
    size = H * N
    lr = tl.load(bars + at, mask=there, other=0.0)
    li = tl.load(bars + size + at, mask=there, other=0.0)
    br = tl.load(bars + 2 * size + at, mask=there, other=0.0)
    bi = tl.load(bars + 3 * size + at, mask=there, other=0.0)
    count = tl.load(weight + n, mask=there, other=0.0).to(tl.float64)
    c_at = ((d * H + h) * N + n) * 2
    cr = tl.load(C + c_at, mask=there, other=0.0).to(tl.float64) * count
    ci = tl.load(C + c_at + 1, mask=there, other=0.0).to(tl.float64) * count
    pr, pi = _power(lr[:, None], li[:, None], e, LOG_T)
    vr, vi = times(pr, pi, br[:, None], bi[:, None])
    values = tl.sum(cr[:, None] * vr - ci[:, None] * vi, 0)
    if d == 0:
        column = fold + (h * T + T - 1 - e) * 2 * NP + n[:, None]
        tl.store(column, vr.to(tl.float32))
        tl.store(column + NP, vi.to(tl.float32))
        at_carry = h * 2 * NP + n
        tl.store(carry + at_carry, tl.load(bars + 4 * size + at, mask=there, other=0.0).to(tl.float32))
        tl.store(carry + at_carry + NP, tl.load(bars + 5 * size + at, mask=there, other=0.0).to(tl.float32))
        if JUMPS:
            at_carry += H * 2 * NP
            tl.store(carry + at_carry, tl.load(bars + 6 * size + at, mask=there, other=0.0).to(tl.float32))
            tl.store(carry + at_carry + NP, tl.load(bars + 7 * size + at, mask=there, other=0.0).to(tl.float32))
    wr, wi = times(cr, ci, lr, li)
    wr, wi = times(pr, pi, wr[:, None], wi[:, None])
    row = read + ((d * H + h) * 2 * NP + n[:, None]) * T + e
    tl.store(row, wr.to(tl.float32))
    tl.store(row + NP * T, -wi.to(tl.float32))
    if HAS_D:
        if d == 0:
            values += tl.where(tl.arange(0, T) == 0, tl.load(D + h).to(tl.float64), 0.0)
    tl.store(kernel + (d * H + h) * T + tl.arange(0, T), values.to(tl.float32))


@jit
@no_type_check
def _tables_backward(
    bars, C, weight, g_kernel, g_bars, g_C, H, N,
    T: tl.constexpr, LOG_T: tl.constexpr, NP: tl.constexpr, TILE: tl.constexpr, DIRECTIONS: tl.constexpr,
):  # fmt: skip
    """Gradients of ``lambda_bar``, ``B_bar`` and C: a program for each channel and tile of modes.

    The gradient of z is that of its real part + i that of its imaginary part: then ``w = f(z)`` of an analytic f gives
    z the gradient ``conj(f'(z))`` times that of w.
    """
    g_fold = fold_of(g_kernel, H, T, DIRECTIONS)
    g_read = read_of(g_kernel, H, T, 2 * NP, DIRECTIONS)
    g_carry = carry_of(g_kernel, H, T, 2 * NP, DIRECTIONS)
    h = tl.program_id(0)
    n = tl.program_id(1) * TILE + tl.arange(0, TILE)
    there = n < N
    e = tl.arange(0, T)[None, :]
    at = h * N + n
    size = H * N
    lr = tl.load(bars + at, mask=there, other=0.0)
    li = tl.load(bars + size + at, mask=there, other=0.0)
    br = tl.load(bars + 2 * size + at, mask=there, other=0.0)
    bi = tl.load(bars + 3 * size + at, mask=there, other=0.0)
    count = tl.load(weight + n, mask=there, other=0.0).to(tl.float64)
    pr, pi = _power(lr[:, None], li[:, None], e, LOG_T)
    # Gradients come in float32: sums over a chunk lose nothing in it, and are what takes the time.
    pr = pr.to(tl.float32)
    pi = pi.to(tl.float32)
    slope_r = (e + 1) * pr  # (e + 1) lambda^e, the derivative of lambda^(e+1)
    slope_i = (e + 1) * pi

    # The fold: lambda^e B_bar, whose gradient comes with a row for each mode.
    column = g_fold + (h * 2 * NP + n[:, None]) * T + e
    vr = tl.load(column)
    vi = tl.load(column + NP * T)
    g_br = tl.sum(pr * vr + pi * vi, 1)
    g_bi = tl.sum(pr * vi - pi * vr, 1)
    later = e < T - 1
    vr = tl.load(column + 1, mask=later, other=0.0)
    vi = tl.load(column + NP * T + 1, mask=later, other=0.0)
    sr = tl.sum(slope_r * vr + slope_i * vi, 1)
    si = tl.sum(slope_r * vi - slope_i * vr, 1)
    g_lr = br * sr + bi * si
    g_li = br * si - bi * sr

    for d in tl.static_range(DIRECTIONS):
        c_at = ((d * H + h) * N + n) * 2
        cr = tl.load(C + c_at, mask=there, other=0.0).to(tl.float64) * count
        ci = tl.load(C + c_at + 1, mask=there, other=0.0).to(tl.float64) * count
        # The kernel: Re(c B_bar lambda^e).
        k_at = g_kernel + (d * H + h) * T + e
        k = tl.load(k_at)
        qr = tl.sum(pr * k, 1)
        qi = -tl.sum(pi * k, 1)
        g_cr = br * qr + bi * qi
        g_ci = br * qi - bi * qr
        g_br += cr * qr + ci * qi
        g_bi += cr * qi - ci * qr
        k = tl.load(k_at + 1, mask=later, other=0.0)
        sr = tl.sum(slope_r * k, 1)
        si = -tl.sum(slope_i * k, 1)
        qr, qi = times(cr, ci, br, bi)
        g_lr += qr * sr + qi * si
        g_li += qr * si - qi * sr
        # The read-out: Re and -Im of c lambda^(e+1).
        row = g_read + ((d * H + h) * 2 * NP + n[:, None]) * T + e
        wr = tl.load(row)
        wi = -tl.load(row + NP * T)
        sr = tl.sum(pr * wr + pi * wi, 1)
        si = tl.sum(pr * wi - pi * wr, 1)
        g_cr += lr * sr + li * si
        g_ci += lr * si - li * sr
        sr = tl.sum(slope_r * wr + slope_i * wi, 1)
        si = tl.sum(slope_r * wi - slope_i * wr, 1)
        g_lr += cr * sr + ci * si
        g_li += cr * si - ci * sr
        tl.store(g_C + c_at, g_cr * count, mask=there)
        tl.store(g_C + c_at + 1, g_ci * count, mask=there)

    # The carry, lambda^T.
    last = e == T - 1
    sr = tl.sum(tl.where(last, slope_r, 0.0), 1)
    si = tl.sum(tl.where(last, slope_i, 0.0), 1)
    xr = tl.load(g_carry + h * 2 * NP + n)
    xi = tl.load(g_carry + h * 2 * NP + NP + n)
    tl.store(g_bars + at, g_lr + sr * xr + si * xi, mask=there)
    tl.store(g_bars + size + at, g_li + sr * xi - si * xr, mask=there)
    tl.store(g_bars + 2 * size + at, g_br, mask=there)
    tl.store(g_bars + 3 * size + at, g_bi, mask=there)


@jit
@no_type_check
def _modes_backward(
    A_log_real, A_imag, B, log_dt, g_bars, g_kernel, g_log_real, g_imag, g_B, g_log_dt, g_D, H, N, systems,
    T: tl.constexpr, NP: tl.constexpr, BILINEAR: tl.constexpr, HAS_D: tl.constexpr,
):  # fmt: skip
    """From ``lambda_bar`` and ``B_bar`` to what the layer stores; a program for each channel."""
    h = tl.program_id(0)
    n = tl.arange(0, NP)
    there = n < N
    at = (h % systems) * N + n
    out = h * N + n
    size = H * N
    dt = tl.exp(tl.load(log_dt + h).to(tl.float64))
    re = -tl.exp(tl.load(A_log_real + at, mask=there, other=0.0).to(tl.float64))
    im = tl.load(A_imag + at, mask=there, other=0.0).to(tl.float64)
    x = re * dt
    y = im * dt
    lr, li, gr, gi = discretized(x, y, BILINEAR)
    dlr, dli, dgr, dgi = derivatives(x, y, lr, li, gr, gi, BILINEAR)
    Br = tl.load(B + 2 * at, mask=there, other=0.0).to(tl.float64)
    Bi = tl.load(B + 2 * at + 1, mask=there, other=0.0).to(tl.float64)
    g_lr = tl.load(g_bars + out, mask=there, other=0.0)
    g_li = tl.load(g_bars + size + out, mask=there, other=0.0)
    g_br = tl.load(g_bars + 2 * size + out, mask=there, other=0.0)
    g_bi = tl.load(g_bars + 3 * size + out, mask=there, other=0.0)
    g_gr = Br * g_br + Bi * g_bi
    g_gi = Br * g_bi - Bi * g_br
    g_x = dlr * g_lr + dli * g_li + dt * (dgr * g_gr + dgi * g_gi)
    g_y = dlr * g_li - dli * g_lr + dt * (dgr * g_gi - dgi * g_gr)
    g_dt = gr * g_gr + gi * g_gi + re * g_x + im * g_y
    tl.store(g_log_real + out, g_x * dt * re, mask=there)
    tl.store(g_imag + out, g_y * dt, mask=there)
    tl.store(g_B + 2 * out, dt * (gr * g_br + gi * g_bi), mask=there)
    tl.store(g_B + 2 * out + 1, dt * (gr * g_bi - gi * g_br), mask=there)
    tl.store(g_log_dt + h, tl.sum(tl.where(there, g_dt, 0.0)) * dt)
    if HAS_D:  # the skip is part of the first value of the first direction's kernel
        tl.store(g_D + h, tl.load(g_kernel + h * T))


def make_tables(system: DiagonalParameters, D: Tensor | None, sizes: Sizes) -> tuple[Tensor, Tensor]:
    """The tables in one array, and the modes in discrete time, which their chain rule needs."""
    A_log_real, A_imag, B, C, log_dt, weight = _contiguous(system)
    (directions, H, N, _), T, NP, log_T = C.shape, sizes.steps, sizes.state // 2, sizes.steps.bit_length() - 1
    systems, jumps = A_imag.shape[0], sizes.jump > 0
    tables = torch.empty(sizes.total, dtype=torch.float32, device=C.device)
    bars = modes_like(C, sizes)
    launch(
        _modes, (-(-H * N // _BLOCK),), A_log_real, A_imag, B, log_dt, bars, H, N, systems, sizes.jump,
        BLOCK=_BLOCK, LOG_T=log_T, BILINEAR=system.disc == "bilinear", JUMPS=jumps, num_warps=_BLOCK // 32,
    )  # fmt: skip
    launch(
        _tables, (H, directions), bars, C, weight, None if D is None else D.contiguous(), tables, H, N,
        T=T, LOG_T=log_T, NP=NP, DIRECTIONS=directions, HAS_D=D is not None, JUMPS=jumps, num_warps=_WARPS,
    )  # fmt: skip
    return tables, bars


def tables_backward(
    system: DiagonalParameters, D: Tensor | None, bars: Tensor, sizes: Sizes, gradient: Tensor
) -> list[Tensor | None]:
    """Gradients of ``A_log_real, A_imag, B, C, log_dt``, and of ``D``."""
    A_log_real, A_imag, B, C, log_dt, weight = _contiguous(system)
    (directions, H, N, _), T, NP, systems = C.shape, sizes.steps, sizes.state // 2, A_imag.shape[0]
    g_bars, g_C = torch.empty(4, H, N, dtype=bars.dtype, device=bars.device), torch.empty_like(C)
    launch(
        _tables_backward, (H, NP // _MODES), bars, C, weight, gradient, g_bars, g_C, H, N,
        T=T, LOG_T=T.bit_length() - 1, NP=NP, TILE=_MODES, DIRECTIONS=directions, num_warps=_WARPS,
    )  # fmt: skip
    real, imag, g_B = C.new_empty(H, N), C.new_empty(H, N), C.new_empty(H, N, 2)
    g_log_dt, g_D = torch.empty_like(log_dt), None if D is None else torch.empty_like(log_dt)
    launch(
        _modes_backward, (H,),
        A_log_real, A_imag, B, log_dt, g_bars, gradient, real, imag, g_B, g_log_dt, g_D, H, N, systems,
        T=T, NP=NP, BILINEAR=system.disc == "bilinear", HAS_D=D is not None, num_warps=1,
    )  # fmt: skip
    if systems < H:  # channels take the systems in turn
        real, imag, g_B = (t.unflatten(0, (-1, systems)).sum(0) for t in (real, imag, g_B))
    return [real, imag, g_B, g_C, g_log_dt, g_D]


def modes_like(C: Tensor, sizes: Sizes) -> Tensor:
    """Room for the modes in discrete time: ``lambda_bar, B_bar, lambda_bar^T`` and the jump, ``(8, channel, mode)``."""
    _, H, N, _ = C.shape
    return torch.empty(8 if sizes.jump else 6, H, N, dtype=torch.float64, device=C.device)


def _contiguous(system: DiagonalParameters) -> list[Tensor]:
    values = (system.A_log_real, system.A_imag, system.B, system.C, system.log_dt, system.weight)
    return [value.contiguous() for value in values]
