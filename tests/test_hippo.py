"""The matrices against what they are for: each is the derivative of the coefficients of a sliding or growing past."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.polynomial import laguerre, legendre
from scipy.linalg import expm

from dense_twin import assert_close
from legs_reference import legs_numpy
from wellposed import hippo

SIZES = st.integers(1, 24)


def legendre_on_unit_interval(n: int, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Orthonormal Legendre polynomials of degree below ``n`` on [0, 1], and their derivatives."""
    root = np.sqrt(2 * np.arange(n) + 1)
    P = [legendre.Legendre.basis(k) for k in range(n)]
    return (
        root[:, None] * np.stack([p(2 * x - 1) for p in P]),
        2 * root[:, None] * np.stack([p.deriv()(2 * x - 1) if p.degree() else 0 * x for p in P]),
    )


@given(SIZES)
def test_legs_is_the_matrix_of_the_paper(n: int):
    A, A_perp, B = legs_numpy(n)
    assert_close(hippo.legs(n)[0], A, 1e-15)
    assert_close(hippo.legs(n)[1], B, 1e-15)
    assert_close(hippo.split("legs", n).N, A_perp, 1e-15)
    assert_close(hippo.legs(n, scale="s4")[0], A, 1e-15)
    assert_close(hippo.legs(n, scale="s4")[1], np.sqrt(2) * B, 1e-15)


@given(SIZES)
def test_legs_stores_the_whole_past(n: int):
    # c(t) = 1/t int_0^t u(s) g(s/t) ds has t c' = g(1) u(t) - c - 1/t int u (x g')(s/t) ds, so -g - x g' = A g.
    x = np.linspace(0, 1, 2 * n + 1)
    g, dg = legendre_on_unit_interval(n, x)
    A, B = hippo.legs(n, scale="s4")
    # The polynomials themselves lose a digit with every few degrees.
    assert_close(A.numpy() @ g, -g - x * dg, 1e-12)
    assert_close(B, g[:, -1], 1e-12)


@given(SIZES)
def test_legt_stores_a_window(n: int):
    # c(t) = int_0^1 u(t - x) g(x) dx has c' = g(0) u(t) - g(1) u(t - 1) + int u(t - x) g'(x) dx; for u in the span of g
    # u(t - 1) = g(1)^T c. The library orders time the other way round: g(1 - x), which flips odd degrees.
    y, w = legendre.leggauss(n + 1)
    g, dg = legendre_on_unit_interval(n, (y + 1) / 2)
    ends, _ = legendre_on_unit_interval(n, np.array([0.0, 1.0]))
    flip = (-1.0) ** np.arange(n)
    A = (dg * w / 2) @ g.T - np.outer(ends[:, 1], ends[:, 1])
    assert_close(hippo.legt(n)[0], flip[:, None] * A * flip, 1e-12)
    assert_close(hippo.legt(n)[1], flip * ends[:, 0], 1e-12)


@given(SIZES, st.floats(0, 2))
def test_lagt_stores_a_fading_past(n: int, beta: float):
    # c(t) = int_0^inf u(t - x) phi(x) dx has c' = phi(0) u(t) + int u(t - x) phi'(x) dx, so phi' = A phi.
    x = np.linspace(0, 5, 2 * n + 1)
    L = [laguerre.Laguerre.basis(k) for k in range(n)]
    tilt = np.exp(-(1 + beta) / 2 * x)
    phi = np.stack([p(x) for p in L]) * tilt
    slope = np.stack([p.deriv()(x) if p.degree() else 0 * x for p in L]) * tilt
    A, B = hippo.lagt(n, beta=beta)
    assert_close(A.numpy() @ phi, slope - (1 + beta) / 2 * phi, 1e-10)
    assert_close(B, phi[:, 0], 1e-12)


@given(SIZES)
def test_fout_stores_a_window(n: int):
    # As for LegT, but a Fourier series meets the mean of both ends: u(t - 1) = 2 g(0)^T c - u(t).
    x = np.arange(4 * n) / (4 * n)  # the trapezoidal rule is exact for these frequencies
    k = (np.arange(n) + 1) // 2
    angle = 2 * np.pi * k[:, None] * x
    is_cos = (np.arange(n) % 2 == 1)[:, None]
    size = np.where(k == 0, 1, np.sqrt(2))[:, None]
    g = size * np.where(k[:, None] == 0, 1, np.where(is_cos, np.cos(angle), np.sin(angle)))
    dg = size * 2 * np.pi * k[:, None] * np.where(is_cos, -np.sin(angle), np.cos(angle))
    A, B = hippo.fout(n)
    assert_close(A, dg @ g.T / len(x) - 2 * np.outer(g[:, 0], g[:, 0]), 1e-12)
    assert_close(B, 2 * g[:, 0], 1e-12)


@pytest.mark.parametrize("scale", ["paper", "s4"])
@pytest.mark.parametrize("measure", sorted(hippo.MEASURES))
@given(n=SIZES)
def test_normal_plus_low_rank(measure: str, scale: Any, n: int):
    A, _ = hippo.MEASURES[measure](n, scale=scale)
    N, P = hippo.split(measure, n, scale=scale)
    assert_close(N - P @ P.mT, A, 1e-14)
    S = N - N.diagonal().mean() * torch.eye(n)
    assert torch.equal(S, -S.mT)
    assert P.shape == (n, min(n, 2) if measure == "legt" else 1)


def window_of_two(basis: np.ndarray, slope: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Gram matrices of an orthonormal basis of [0, 1] and its slope, moved to [0, 2]: ``f(x / 2) / sqrt(2)``."""
    # Lengths double in the integrals, the two factors sqrt(1/2) undo that; the slope halves.
    return (basis * w) @ basis.T, (slope * w) @ basis.T / 2


@given(SIZES)
def test_legt_at_the_scale_of_s4_stores_a_window_of_length_two(n: int):
    # c(t) = int_0^2 u(t - x) g(x / 2) dx / 2, that is the coefficients of the window's content: c' has half the ends.
    y, w = legendre.leggauss(n + 1)
    g, dg = legendre_on_unit_interval(n, (y + 1) / 2)
    ends, _ = legendre_on_unit_interval(n, np.array([0.0, 1.0]))
    gram, M = window_of_two(g, dg, w / 2)
    assert_close(gram, np.eye(n), 1e-12)
    flip = (-1.0) ** np.arange(n)
    A = M - np.outer(ends[:, 1], ends[:, 1]) / 2
    found, B = hippo.legt(n, scale="s4")
    assert_close(found, flip[:, None] * A * flip, 1e-12)
    assert_close(B, flip * ends[:, 0] / 2, 1e-12)


@pytest.mark.parametrize("n", [1, 2, 3, 8])
def test_entries_at_the_scale_of_s4(n: int):
    # Entry by entry, from the formulas: A_jk of LegT, with half the speed; frequencies pi k instead of 2 pi k in FouT.
    j = range(n)
    legt = [[-0.5 * ((2 * a + 1) * (2 * b + 1)) ** 0.5 * (1 if b <= a else (-1) ** (a - b)) for b in j] for a in j]
    assert_close(hippo.legt(n, scale="s4")[0], np.array(legt), 1e-15)
    f = np.array([1.0 if a == 0 else 2**0.5 * (a % 2) for a in j])
    fout = -np.outer(f, f)
    for cosine in range(1, n - 1, 2):
        k = (cosine + 1) // 2
        fout[cosine, cosine + 1], fout[cosine + 1, cosine] = -np.pi * k, np.pi * k
    A, B = hippo.fout(n, scale="s4")
    assert_close(A, fout, 1e-15)
    assert_close(B, f, 1e-15)


@pytest.mark.parametrize("measure", ["legt", "fout"])
def test_the_scale_of_s4_is_time_at_half_speed(measure: str):
    A, B = (t.numpy() for t in hippo.MEASURES[measure](7))
    A4, B4 = (t.numpy() for t in hippo.MEASURES[measure](7, scale="s4"))
    t = 0.3
    assert_close(expm(2 * t * A4) @ B4, expm(t * A) @ B / 2, 1e-13)


@given(SIZES, st.floats(0, 2))
def test_lagt_has_one_scale(n: int, beta: float):
    for ours, published in zip(hippo.lagt(n, beta=beta), hippo.lagt(n, beta=beta, scale="s4"), strict=True):
        assert torch.equal(ours, published)


@pytest.mark.parametrize("scale", ["paper", "s4"])
@pytest.mark.parametrize("measure", sorted(hippo.MEASURES))
@given(n=SIZES)
def test_diagonal_plus_low_rank(measure: str, scale: Any, n: int):
    A, B = hippo.MEASURES[measure](n, scale=scale)
    form = hippo.dplr(measure, n, scale=scale)
    assert all(part.dtype == torch.complex128 for part in form)
    Lambda, V, P, B_tilde = (part.numpy() for part in form)
    assert_close(V @ V.conj().T, np.eye(n), 1e-13)
    assert_close(V @ (np.diag(Lambda) - P @ P.conj().T) @ V.conj().T, A, 1e-13)
    assert_close(V @ B_tilde, B, 1e-13)
    assert P.shape == (n, min(n, 2) if measure == "legt" else 1)


@given(SIZES, st.floats(0, 2, allow_subnormal=False))
def test_tilted_form(n: int, beta: float):
    Lambda, V, P, B = hippo.dplr("lagt", n, beta=beta)
    assert_close(V @ (Lambda.diag() - P @ P.mH) @ V.mH, hippo.lagt(n, beta=beta)[0], 1e-13)
    assert_close(V @ B, np.ones(n), 1e-13)


@given(SIZES, st.floats(0, 2, allow_subnormal=False))
def test_tilted_split(n: int, beta: float):
    N, P = hippo.split("lagt", n, beta=beta)
    assert_close(N - P @ P.mT, hippo.lagt(n, beta=beta)[0], 1e-14)
    assert torch.equal(N + N.mT, -beta * torch.eye(n, dtype=torch.float64))


@pytest.mark.parametrize(("n", "norm"), [(8, "40.81"), (16, "163.0"), (32, "652.0"), (64, "2607.7"), (128, "10430.4")])
def test_norm_of_legs(n: int, norm: str):
    digits = len(norm.split(".")[1])
    assert f"{torch.linalg.matrix_norm(hippo.legs(n)[0], 2).item():.{digits}f}" == norm
