"""The matrices against what they are for: each is the derivative of the coefficients of a sliding or growing past."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.polynomial import laguerre, legendre

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


@pytest.mark.parametrize("measure", sorted(hippo.MEASURES))
@given(n=SIZES)
def test_normal_plus_low_rank(measure: str, n: int):
    A, _ = hippo.MEASURES[measure](n)
    N, P = hippo.split(measure, n)
    assert_close(N - P @ P.mT, A, 1e-14)
    S = N - N.diagonal().mean() * torch.eye(n)
    assert torch.equal(S, -S.mT)
    assert P.shape == (n, min(n, 2) if measure == "legt" else 1)


@given(SIZES, st.floats(0, 2, allow_subnormal=False))
def test_tilted_split(n: int, beta: float):
    N, P = hippo.split("lagt", n, beta=beta)
    assert_close(N - P @ P.mT, hippo.lagt(n, beta=beta)[0], 1e-14)
    assert torch.equal(N + N.mT, -beta * torch.eye(n, dtype=torch.float64))


@pytest.mark.parametrize(("n", "norm"), [(8, "40.81"), (16, "163.0"), (32, "652.0"), (64, "2607.7"), (128, "10430.4")])
def test_norm_of_legs(n: int, norm: str):
    digits = len(norm.split(".")[1])
    assert f"{torch.linalg.matrix_norm(hippo.legs(n)[0], 2).item():.{digits}f}" == norm
