from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from wellposed import eigenvector_condition, ptd
from wellposed.errors import NotFiniteError, ShapeError
from wellposed.hippo import legs
from wellposed.linalg import gallery
from wellposed.linalg._condition import optimal_scaling


def random_vectors(n: int, seed: int, *, complex_valued: bool) -> Any:
    rng = np.random.default_rng(seed)
    V = rng.standard_normal((n, n)) + (1j * rng.standard_normal((n, n)) if complex_valued else 0)
    V = V + 3 * rng.random() * V[:, :1]  # from independent columns to nearly parallel ones
    return V * np.exp(3 * rng.standard_normal(n))


def kappa(V: Any, log_d: Any) -> float:
    return float(np.linalg.cond(V * np.exp(log_d)))


@given(st.integers(1, 12), st.integers(0, 2**32 - 1), st.booleans())
def test_bounds_of_the_infimum(n: int, seed: int, complex_valued: bool):
    V = random_vectors(n, seed, complex_valued=complex_valued)
    found = optimal_scaling(V, np.linalg.inv(V))
    assert (found.d > 0).all()
    assert found.condition == pytest.approx(np.linalg.cond(V * found.d), rel=1e-6)
    assert found.lower <= found.condition * (1 + 1e-9)
    # Nothing gets below the lower bound, near the optimum or far away.
    rng = np.random.default_rng(seed)
    for spread in (0.0, 1e-3, 0.1, 1.0, 5.0):
        assert kappa(V, np.log(found.d) + spread * rng.standard_normal(n)) >= found.lower * (1 - 1e-9)
    unit = np.log(np.linalg.norm(V, axis=0))
    assert found.condition <= kappa(V, -unit) * 1.005  # the search stops within half a percent of the infimum


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("n", [2, 3, 4])
def test_against_a_search(n: int, seed: int):
    V = random_vectors(n, seed, complex_valued=seed % 2 == 1)
    start = -np.log(np.linalg.norm(V, axis=0))
    best = np.inf
    rng = np.random.default_rng(seed)
    for _ in range(3):
        options = {"xatol": 1e-8, "fatol": 1e-10, "maxiter": 4000, "maxfev": 4000}
        x = start + 0.3 * rng.standard_normal(n)
        found: Any = minimize(lambda x: np.log(kappa(V, x)), x, method="Nelder-Mead", options=options)
        best = min(best, float(np.exp(found.fun)))
    scaling = optimal_scaling(V, np.linalg.inv(V))
    assert scaling.condition <= 1.01 * best
    assert scaling.lower <= best * (1 + 1e-9)
    assert scaling.condition <= 1.01 * scaling.lower


def test_two_columns_in_closed_form():
    # Unit columns at an angle theta: the best lengths are equal, and kappa is cot(theta / 2).
    for theta in (0.01, 0.5, 1.0, np.pi / 2):
        V = np.array([[1.0, np.cos(theta)], [0.0, np.sin(theta)]]) * np.array([1e3, 1e-2])
        found = optimal_scaling(V, np.linalg.inv(V))
        assert found.condition == pytest.approx(1 / np.tan(theta / 2), rel=0.005)


@pytest.mark.parametrize("name", gallery.MATRICES)
def test_certified_to_a_percent(name: str):
    d = ptd(gallery.MATRICES[name](10), rel=0.02, method="gaussian")
    V = d.V.numpy()
    found = optimal_scaling(V, np.linalg.inv(V))
    assert found.lower <= found.condition <= 1.01 * found.lower


@pytest.mark.parametrize(("n", "notes"), [(8, 7.7e4), (16, 8.3e10)])
def test_legs_against_the_notes(n: int, notes: float):
    # NOTES 5 are the condition numbers of unit columns; the infimum over their lengths is 24 and 35 % lower.
    A = legs(n)[0]
    unit = np.linalg.cond(np.linalg.eig(A.numpy())[1])
    assert unit == pytest.approx(notes, rel=0.01)
    assert 0.6 * unit < eigenvector_condition(A) < 0.8 * unit


def test_eigenvector_condition_of_simple_matrices():
    assert eigenvector_condition(np.diag([1.0, 2.0, 2.0])) == pytest.approx(1)
    assert eigenvector_condition([[1j]]) == 1
    assert eigenvector_condition(np.eye(4, k=1)) == np.inf
    # Eigenvectors (1, 0) and (1, 1): an angle of 45 degrees.
    assert eigenvector_condition([[0.0, 1.0], [0.0, 1.0]]) == pytest.approx(1 + 2**0.5, rel=1e-2)


def test_errors():
    with pytest.raises(ShapeError, match=r"one matrix at a time, got a batch \(2,\)"):
        eigenvector_condition(np.ones((2, 3, 3)))
    with pytest.raises(NotFiniteError, match=r"A\[0, 1\] = nan"):
        eigenvector_condition([[0.0, np.nan], [0.0, 0.0]])


@pytest.mark.parametrize("n", [2, 3, 8])
def test_of_a_defective_matrix_it_is_that_of_a_neighbour(n: int):
    """A turned Jordan block: rounding makes it diagonalisable, with eigenvectors as bad as that allows."""
    Q = np.linalg.qr(np.random.default_rng(0).standard_normal((n, n)))[0]
    found = eigenvector_condition(Q @ np.eye(n, k=1) @ Q.T)
    assert 0.01 * 2.0 ** (52 * (n - 1) / n) < found < 1e18
