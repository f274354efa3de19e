"""The kernels of ``mode_scan``: fold, carry, run, and run back.

``P``, the number of modes, is a constant of the code: the steps of a tile then lie at constant distances from its
first, and a thread keeps one address, not one for each of them.
"""

from __future__ import annotations

from typing import no_type_check

import triton.language as tl

from wellposed.kernels.gpu.pieces import jit

# ruff: noqa: RUF005 -- Triton adds tuples, and unpacks none


@jit
@no_type_check
def _place(program, batch, length, tiles, P: tl.constexpr, T: tl.constexpr, ROWS: tl.constexpr, MODES: tl.constexpr):
    """Of the tiles of a program: sequence, number in it, first of all rows, modes, and how many steps are left.

    None are left of what is not there: a step of a tile exists if its number is below that.
    """
    BLOCKS: tl.constexpr = (P + MODES - 1) // MODES
    row = (program // BLOCKS) * ROWS + tl.arange(0, ROWS)[:, None]
    p = (program % BLOCKS) * MODES + tl.arange(0, MODES)[None, :]
    b = row // tiles
    j = row % tiles
    left = tl.where((b < batch) & (p < P), length - j * T, 0)
    return b.to(tl.int64), j, b.to(tl.int64) * length + j * T, p, left


@jit
@no_type_check
def _pair(at, step, mask):
    """Real and imaginary part, ``step`` numbers apart."""
    return tl.load(at, mask, other=0.0).to(tl.float32), tl.load(at + step, mask, other=0.0).to(tl.float32)


@jit
@no_type_check
def _write(at, step, re, im, mask):
    tl.store(at, re.to(at.dtype.element_ty), mask)
    tl.store(at + step, im.to(at.dtype.element_ty), mask)


@jit
@no_type_check
def _advance(lr, li, xr, xi, vr, vi):
    """``lambda x + v``."""
    return lr * xr - li * xi + vr, lr * xi + li * xr + vi


@jit
@no_type_check
def fold(
    v,
    carries,
    lam,
    batch,
    length,
    tiles,
    P: tl.constexpr,
    DIRECTIONS: tl.constexpr,
    ADJOINT: tl.constexpr,
    T: tl.constexpr,
    ROWS: tl.constexpr,
    MODES: tl.constexpr,
):
    """What every tile adds to the state at its end."""
    # From the end: the first that are read here are the last that the product before wrote, and may still be at hand.
    program = tl.num_programs(0) - 1 - tl.program_id(0)
    b, j, first, p, left = _place(program, batch, length, tiles, P, T, ROWS, MODES)
    lr, li = _pair(lam + p, P, p < P)
    li = -li if ADJOINT else li
    # Upwards in time runs the forward direction, and the adjoint of the other.
    UP: tl.constexpr = DIRECTIONS == 2 or not ADJOINT
    DOWN: tl.constexpr = DIRECTIONS == 2 or ADJOINT
    UP_AT: tl.constexpr = 2 * P if ADJOINT else 0
    DOWN_AT: tl.constexpr = 0 if ADJOINT else 2 * P
    OWN: tl.constexpr = ADJOINT and DIRECTIONS == 2  # each direction has an input of its own
    WIDE: tl.constexpr = 4 * P if OWN else 2 * P
    ALL: tl.constexpr = DIRECTIONS * 2 * P
    at = v + first * WIDE + p
    ur = tl.zeros((ROWS, MODES), tl.float32)
    ui, dr, di, pi = ur, ur, ur, ur
    pr = ur + 1.0  # lambda^k
    for k in tl.static_range(T):
        vr, vi = _pair(at + k * WIDE, P, k < left)
        if DOWN:
            dr, di = _advance(pr, pi, vr, vi, dr, di)
            pr, pi = lr * pr - li * pi, lr * pi + li * pr
        if OWN:
            vr, vi = _pair(at + k * WIDE + UP_AT, P, k < left)
        if UP:
            ur, ui = _advance(lr, li, ur, ui, vr, vi)
    at = carries + (b * (tiles + 1) + j) * ALL + p
    if UP:
        _write(at + ALL + UP_AT, P, ur, ui, left > 0)
    if DOWN:
        _write(at + DOWN_AT, P, dr, di, left > 0)


@jit
@no_type_check
def _combine(ar, ai, xr, xi, br, bi, yr, yi):
    """First the left one, then the right: ``b (a z + x) + y``."""
    return ar * br - ai * bi, ar * bi + ai * br, br * xr - bi * xi + yr, br * xi + bi * xr + yi


@jit
@no_type_check
def carry(
    carries,
    lam,
    state,
    tiles,
    P: tl.constexpr,
    DIRECTIONS: tl.constexpr,
    ADJOINT: tl.constexpr,
    STATE: tl.constexpr,
    STEPS: tl.constexpr,
    MODES: tl.constexpr,
):
    """The states between tiles, in place of the sums that ``fold`` left: one tile's end is the next one's start."""
    b = tl.program_id(0).to(tl.int64)
    p = tl.program_id(1) * MODES + tl.arange(0, MODES)[None, :]
    direction = tl.program_id(2)
    i = tl.arange(0, STEPS)[:, None]
    up = (direction == 1) == ADJOINT
    zero = tl.zeros((STEPS, MODES), tl.float64)
    lr = tl.load(lam + p, p < P, other=0.0) + zero
    li = tl.load(lam + P + p, p < P, other=0.0) + zero
    li = -li if ADJOINT else li
    cr = tl.zeros((1, MODES), tl.float64)
    ci = cr
    if STATE:  # as it comes through the layer's door, real and imaginary parts in turn
        own = (p < P) & (direction == 0)
        cr += tl.load(state + (b * P + p) * 2, own, other=0.0).to(tl.float64)
        ci += tl.load(state + (b * P + p) * 2 + 1, own, other=0.0).to(tl.float64)
    to = carries + ((b * (tiles + 1) + tl.where(up, 0, tiles)) * DIRECTIONS + direction) * 2 * P + p
    _write(to, P, cr, ci, p < P)
    for start in range(1, tiles + 1, STEPS):
        mask = (start + i <= tiles) & (p < P)
        row = tl.where(up, start + i, tiles - start - i)
        at = carries + ((b * (tiles + 1) + row) * DIRECTIONS + direction) * 2 * P + p
        xr = tl.load(at, mask, other=0.0).to(tl.float64)
        xi = tl.load(at + P, mask, other=0.0).to(tl.float64)
        ar, ai, xr, xi = tl.associative_scan((lr, li, xr, xi), 0, _combine)
        xr, xi = _advance(ar, ai, cr, ci, xr, xi)
        _write(at, P, xr, xi, mask)
        cr = tl.sum(tl.where(i == STEPS - 1, xr, 0.0), 0)[None, :]
        ci = tl.sum(tl.where(i == STEPS - 1, xi, 0.0), 0)[None, :]


@jit
@no_type_check
def run(
    v,
    x,
    carries,
    lam,
    lengths,
    last,
    batch,
    length,
    tiles,
    P: tl.constexpr,
    DIRECTIONS: tl.constexpr,
    PADDED: tl.constexpr,
    LAST: tl.constexpr,
    T: tl.constexpr,
    ROWS: tl.constexpr,
    MODES: tl.constexpr,
):
    """Every state; and where ``LAST``, that of each sequence's own last step."""
    b, j, first, p, left = _place(tl.program_id(0), batch, length, tiles, P, T, ROWS, MODES)
    WIDE: tl.constexpr = DIRECTIONS * 2 * P
    lr, li = _pair(lam + p, P, p < P)
    at = v + first * (2 * P) + p
    vr = ()
    vi = ()
    for k in tl.static_range(T):
        re, im = _pair(at + k * (2 * P), P, k < left)
        vr = vr + (re,)
        vi = vi + (im,)
    at = carries + (b * (tiles + 1) + j) * WIDE + p
    to = x + first * WIDE + p
    xr, xi = _pair(at, P, left > 0)
    if LAST:
        end = tl.load(lengths + b, left > 0, other=0).to(tl.int32) if PADDED else length
        end = tl.where(left > 0, end - 1 - j * T, -1)
    for k in tl.static_range(T):
        xr, xi = _advance(lr, li, xr, xi, vr[k], vi[k])
        _write(to + k * WIDE, P, xr, xi, k < left)
        if LAST:
            _write(last + (b * P + p) * 2, 1, xr, xi, k == end)
    if DIRECTIONS == 2:
        xr, xi = _pair(at + WIDE + 2 * P, P, left > 0)
        for k in tl.static_range(T - 1, -1, -1):
            xr, xi = _advance(lr, li, xr, xi, vr[k], vi[k])
            _write(to + (k * WIDE + 2 * P), P, xr, xi, k < left)


@jit
@no_type_check
def run_back(
    g,
    x,
    dv,
    partial,
    carries,
    lam,
    batch,
    length,
    tiles,
    P: tl.constexpr,
    DIRECTIONS: tl.constexpr,
    AHEAD: tl.constexpr,
    T: tl.constexpr,
    ROWS: tl.constexpr,
    MODES: tl.constexpr,
):
    """The gradient of the input, of both directions at once, and a sum for that of ``lambda`` from each program."""
    b, j, first, p, left = _place(tl.program_id(0), batch, length, tiles, P, T, ROWS, MODES)
    WIDE: tl.constexpr = DIRECTIONS * 2 * P
    BLOCKS: tl.constexpr = (P + MODES - 1) // MODES
    lr, li = _pair(lam + p, P, p < P)
    at = carries + (b * (tiles + 1) + j) * WIDE + p
    row = first * WIDE + p
    to = dv + first * (2 * P) + p
    sr = tl.zeros((ROWS, MODES), tl.float32)  # of lambda: the sum of r_t conj(x_{t-1})
    si = sr
    qr = ()
    qi = ()
    if DIRECTIONS == 2:  # the adjoint of the second direction runs forwards, r_t = g_t + conj(lambda) r_{t-1}
        rr, ri = _pair(at + 2 * P, P, left > 0)
        for k in tl.static_range(T):
            gr, gi = _pair(g + row + (k * WIDE + 2 * P), P, k < left)
            xr, xi = _pair(x + row + ((k + 1) * WIDE + 2 * P), P, k + 1 < left)
            rr, ri = _advance(lr, -li, rr, ri, gr, gi)
            sr += rr * xr + ri * xi
            si += ri * xr - rr * xi
            qr = qr + (rr,)
            qi = qi + (ri,)
    rr, ri = _pair(at + WIDE, P, left > 0)
    started = tl.where(j > 0, left, 0)  # nothing comes before the first step of the first tile
    for part in tl.static_range(T // AHEAD - 1, -1, -1):
        gr = ()
        gi = ()
        xr = ()
        xi = ()
        for k in tl.static_range(part * AHEAD, (part + 1) * AHEAD):
            re, im = _pair(g + row + k * WIDE, P, k < left)
            gr = gr + (re,)
            gi = gi + (im,)
            re, im = _pair(x + row + (k - 1) * WIDE, P, k < (left if k > 0 else started))
            xr = xr + (re,)
            xi = xi + (im,)
        for k in tl.static_range(AHEAD - 1, -1, -1):
            rr, ri = _advance(lr, -li, rr, ri, gr[k], gi[k])
            sr += rr * xr[k] + ri * xi[k]
            si += ri * xr[k] - rr * xi[k]
            dr, di = rr, ri
            if DIRECTIONS == 2:
                dr = rr + qr[part * AHEAD + k]
                di = ri + qi[part * AHEAD + k]
            _write(to + (part * AHEAD + k) * (2 * P), P, dr, di, part * AHEAD + k < left)
    out = partial + (tl.program_id(0) // BLOCKS).to(tl.int64) * 2 * P + p
    _write(out, P, tl.sum(sr, 0)[None, :], tl.sum(si, 0)[None, :], p < P)
