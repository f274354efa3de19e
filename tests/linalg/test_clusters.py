"""Eigenvalues that come more than once: LAPACK's basis of their eigenspace is arbitrary, ours is orthonormal."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import block_diag

from wellposed import eigenvector_condition, ptd
from wellposed.linalg import gallery


def unitary(n: int, seed: int, *, complex_valued: bool = False) -> Any:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, n)) + (1j * rng.standard_normal((n, n)) if complex_valued else 0)
    return np.linalg.qr(X)[0]


def projector(n: int) -> Any:
    Q = unitary(n, 0)[:, : n // 2]
    return Q @ Q.T


def rotations(n: int) -> Any:
    """An orthogonal matrix with every pair of eigenvalues four times, in general position."""
    angles = np.repeat(np.linspace(0.3, 2.8, n // 8), 4)
    blocks = [[[np.cos(t), np.sin(t)], [-np.sin(t), np.cos(t)]] for t in angles]
    Q = unitary(n, 1)
    return Q @ block_diag(*blocks) @ Q.T


NORMAL = {
    "kron": np.kron(np.ones((8, 8)), np.eye(4)),
    "projector 32": projector(32),
    "projector 64": projector(64),
    "rotations": rotations(48),
    "complex": (lambda Q: Q @ np.diag(np.repeat([1j, 2.0, -1 + 1j, 0.0], 6)) @ Q.conj().T)(unitary(24, 2)),
}


@pytest.mark.parametrize("name", NORMAL)
def test_normal_matrices_have_condition_1(name: str):
    A = NORMAL[name]
    assert np.linalg.norm(A @ A.conj().T - A.conj().T @ A) < 1e-12 * np.linalg.norm(A) ** 2
    assert eigenvector_condition(A) == pytest.approx(1, abs=1e-12)
    d = ptd(A)
    assert (d.method, d.rel) == ("none", 0)
    assert d.residual < 1e-14
    assert d.backward_error < 1e-13


@settings(max_examples=30, deadline=None)
@given(st.integers(2, 6), st.integers(2, 4), st.integers(0, 2**32 - 1))
def test_several_copies_of_a_matrix_have_its_condition(n: int, copies: int, seed: int):
    A = np.random.default_rng(seed).standard_normal((n, n))
    Q = unitary(n * copies, seed)
    one, many = eigenvector_condition(A), eigenvector_condition(Q @ np.kron(np.eye(copies), A) @ Q.T)
    if one < 1e4:
        assert many == pytest.approx(one, rel=0.01)


def test_clusters_of_a_matrix_that_is_not_normal():
    """Every eigenvalue four times, and no basis of an eigenspace is better than an orthonormal one by much."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((32, 32))
    A = X @ np.diag(np.repeat(np.arange(8.0), 4)) @ np.linalg.inv(X)
    bases = [np.linalg.qr(X[:, k : k + 4])[0] for k in range(0, 32, 4)]
    right = np.linalg.cond(np.concatenate(bases, axis=1))
    assert 0.8 * right < eigenvector_condition(A) < 1.2 * right
    # LAPACK's own vectors of the same matrix
    assert np.linalg.cond(np.linalg.eig(A)[1]) > 2 * right
    assert np.sort(ptd(A, cond=2 * right).Lambda.real.numpy()) == pytest.approx(np.repeat(np.arange(8.0), 4), abs=1e-11)


@pytest.mark.parametrize("coupling", [1.0, 1e-3, 1e-9])
def test_defective_clusters_stay_what_they_are(coupling: float):
    J = np.diag([2.0, 2.0, 5.0]) + coupling * np.eye(3, k=1) * [[1], [0], [0]]
    Q = unitary(3, 0)
    # Rounding splits the double eigenvalue by the root of it, and no further.
    assert eigenvector_condition(Q @ J @ Q.T) > 0.1 * (coupling / 2e-16) ** 0.5


@pytest.mark.parametrize("name", ["jordan:40", "transient:32", "companion:12"])
def test_long_jordan_blocks_stay_defective(name: str):
    assert eigenvector_condition(gallery.matrix(name)) > 1e12
