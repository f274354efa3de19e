"""Modes from continuous to discrete time inside kernels, and the derivatives of that: `discretize` in Triton."""

from __future__ import annotations

from typing import no_type_check

import triton.language as tl

from wellposed.kernels.gpu.pieces import jit


@jit
@no_type_check
def times(ar, ai, br, bi):
    """The product of complex numbers."""
    return ar * br - ai * bi, ar * bi + ai * br


@jit
@no_type_check
def _expm1(x):
    """``exp(x) - 1``, by its series where that cancels: the first term left out is ``x^7 / 8!`` of the whole."""
    s = 1 + x / 7
    s = 1 + x / 6 * s
    s = 1 + x / 5 * s
    s = 1 + x / 4 * s
    s = 1 + x / 3 * s
    s = 1 + x / 2 * s
    return tl.where(tl.abs(x) < 1 / 32, x * s, tl.exp(x) - 1)


@jit
@no_type_check
def discretized(x, y, BILINEAR: tl.constexpr):
    """``lambda_bar = f(z)`` and ``gain / dt = phi(z)`` of ``z = x + i y = lambda dt``, which is not 0."""
    if BILINEAR:
        below = (1 - x / 2) * (1 - x / 2) + y * y / 4
        hr = (1 - x / 2) / below
        hi = y / 2 / below
        fr, fi = times(1 + x / 2, y / 2, hr, hi)
    else:
        e = tl.exp(x)
        fr = e * tl.cos(y)
        fi = e * tl.sin(y)
        # exp(z) - 1 without cancellation: 1 - cos(y) = 2 sin(y/2)^2.
        half = tl.sin(y / 2)
        below = x * x + y * y
        hr, hi = times(_expm1(x) - 2 * e * half * half, fi, x / below, -y / below)
    return fr, fi, hr, hi


@jit
@no_type_check
def derivatives(x, y, fr, fi, hr, hi, BILINEAR: tl.constexpr):
    """``f'(z)`` and ``phi'(z)``."""
    if BILINEAR:
        fr, fi = times(hr, hi, hr, hi)
        sr = fr / 2
        si = fi / 2
    else:
        below = x * x + y * y
        qr, qi = times(fr - hr, fi - hi, x / below, -y / below)  # (exp(z) - phi) / z, which cancels near 0
        # The sum of k z^(k-1) / (k+1)!, of which the first term left out is z^6 / 5760.
        sr, si = times(x / 840 + 1.0 / 144, y / 840, x, y)
        sr, si = times(sr + 1.0 / 30, si, x, y)
        sr, si = times(sr + 1.0 / 8, si, x, y)
        sr, si = times(sr + 1.0 / 3, si, x, y)
        near = below < 1e-4
        sr = tl.where(near, sr + 0.5, qr)
        si = tl.where(near, si, qi)
    return fr, fi, sr, si
