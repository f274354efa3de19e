from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq

from wellposed import departure_from_normality, eigenvector_condition, pseudospectra
from wellposed.errors import ArgumentError, NotFiniteError, ShapeError
from wellposed.linalg import Pseudospectra, gallery

NAMES = ["jordan", "grcar", "legs", "companion", "kahan", "bull-head", "davies", "random-sparse", "well-conditioned"]


def size(A: Any) -> float:
    return float(np.linalg.norm(A, 2))


def sigma_min(A: Any, z: complex) -> float:
    return float(np.linalg.svd(A - z * np.eye(len(A)), compute_uv=False)[-1])


@pytest.mark.parametrize("box", [None, (-2.3, 1.9, -1.7, 1.7), (-1.1, 2.4, -0.3, 2.5)])
@pytest.mark.parametrize(("name", "points"), [(name, 13 + k % 2) for k, name in enumerate(NAMES)])
def test_sigma_against_svd(name: str, points: int, box: Any):
    A = gallery.MATRICES[name](20).numpy()
    found = pseudospectra(A, points=points, box=box)
    x, y, sigma = found.x.numpy(), found.y.numpy(), found.sigma.numpy()
    assert (len(x), len(y), sigma.shape) == (points, points, (points, points))
    if box is not None:
        assert (x[0], x[-1], y[0], y[-1]) == pytest.approx(box)
    true = np.array([[sigma_min(A, complex(a, b)) for a in x] for b in y])
    # Below a few ulp of the norm neither means anything.
    assert sigma == pytest.approx(true, rel=1e-5, abs=1e-13 * size(A))


@pytest.mark.parametrize("name", ["davies", "grcar", "jordan", "legs"])
def test_sigma_of_larger_matrices(name: str):
    # Inverse Lanczos, in several blocks; close singular values (davies) and inverses beyond floats (jordan).
    A = gallery.MATRICES[name](48).numpy()
    found = pseudospectra(A, points=11)
    true = np.array([[sigma_min(A, complex(a, b)) for a in found.x.numpy()] for b in found.y.numpy()])
    assert found.sigma.numpy() == pytest.approx(true, rel=1e-4, abs=1e-13 * size(A))


@pytest.mark.parametrize("name", NAMES)
def test_the_default_box_holds_the_numerical_range(name: str):
    A = gallery.MATRICES[name](12).numpy()
    found = pseudospectra(A, points=5)
    z = np.random.default_rng(0).standard_normal((12, 200, 2)) @ [1, 1j]
    values = np.sum(z.conj() * (A @ z), axis=0) / np.sum(np.abs(z) ** 2, axis=0)
    for value in (*values, *np.linalg.eigvals(A)):
        assert found.x[0] <= value.real <= found.x[-1]
        assert found.y[0] <= value.imag <= found.y[-1]
    eigenvalues = found.eigenvalues.numpy()
    assert eigenvalues.sum() == pytest.approx(np.trace(A), abs=1e-11 * size(A))


@pytest.mark.parametrize("points", [1, 2, 9, 10])
def test_real_matrices_have_symmetric_pseudospectra(points: int):
    found = pseudospectra(gallery.matrix("grcar:12"), points=points, box=(-1.0, 3.0, -3.0, 3.0))
    assert found.sigma.shape == (points, points)
    if points > 1:
        assert found.y.numpy() == pytest.approx(-found.y.numpy()[::-1])
        assert found.sigma.numpy() == pytest.approx(found.sigma.numpy()[::-1], rel=1e-5)


@pytest.mark.parametrize("A", [np.diag([1.0, 2.0, 4.0]), np.array([[3.0]]), np.zeros((3, 3)), np.diag([1j, -2.0])])
def test_of_a_normal_matrix_it_is_the_distance_to_the_spectrum(A: Any):
    found = pseudospectra(A, points=8, box=(-3.0, 5.0, -2.5, 3.0))
    z = found.x.numpy() + 1j * found.y.numpy()[:, None]
    distance = np.abs(z[..., None] - np.diag(A)).min(axis=-1)
    assert found.sigma.numpy() == pytest.approx(distance, rel=1e-5, abs=1e-14)


@pytest.mark.parametrize("eps", [1e-1, 1e-3, 1e-6])
def test_abscissa_of_a_jordan_block(eps: float):
    # The pseudospectrum of a Jordan block is a disc: its abscissa is where sigma_min(rI - J) = eps.
    A = gallery.matrix("jordan:10").numpy()
    true = brentq(lambda r: sigma_min(A, r) - eps, 1e-3, 3.0, xtol=1e-14)
    assert pseudospectra(A, points=3).abscissa(eps) == pytest.approx(true, rel=1e-9)
    assert pseudospectra(A, points=3).abscissa(eps) < np.cos(np.pi / 11) + eps


@pytest.mark.parametrize("eps", [1e-12, 1e-8, 1e-3, 0.1, 1.0, 100.0])
def test_abscissa_of_the_smallest_jordan_block(eps: float):
    found = pseudospectra([[0.0, 1.0], [0.0, 0.0]], points=2).abscissa(eps)
    assert found == pytest.approx(np.sqrt(eps * (1 + eps)), rel=1e-9)


@pytest.mark.parametrize("eps", [0, 1e-14, 1e-3, 1.0, 1e9, 1e300])
def test_abscissa_of_a_normal_matrix(eps: float):
    # The discs of radius eps around the eigenvalues; most of these eps leave no place of the grid inside, or all.
    A = np.diag([1.0, -1.0, 3.0 + 2.0j])
    assert pseudospectra(A, points=40).abscissa(eps) == pytest.approx(3 + eps, rel=1e-14)
    assert pseudospectra(np.eye(2), points=3, box=(3.0, 4.0, 3.0, 4.0)).abscissa(0.1) == pytest.approx(1.1)


def outermost(A: Any, eps: float, y: Any) -> float:
    """The abscissa over the lines ``Im z = y``, walking in from the right: sigma_min, 1-Lipschitz, says how far."""
    x = np.full(len(y), size(A) + eps)
    excess = np.full(len(y), np.inf)
    for _ in range(150):
        z = (x + 1j * y)[:, None, None]
        excess = np.linalg.svd(A - z * np.eye(len(A)), compute_uv=False)[:, -1] - eps
        x -= np.maximum(excess, 0)
    return float(x[excess <= 0.01 * eps].max())


@pytest.mark.slow
@pytest.mark.parametrize("rel", [0.1, 0.01])
@pytest.mark.parametrize("name", ["bull-head:24", "grcar:14", "davies:10", "legs:9", "fout:8", "convection:10"])
def test_abscissa_against_many_lines(name: str, rel: float):
    A = gallery.matrix(name).numpy()
    eps = rel * size(A)
    found = pseudospectra(A, points=3).abscissa(eps)
    assert found > np.linalg.eigvals(A).real.max()
    lines = np.linspace(-size(A) - eps, size(A) + eps, 201)
    # Between two lines it can be farther right, by no more than their distance; 1 % of eps is how outermost stops.
    seen = outermost(A, eps, lines)
    assert seen - 0.02 * eps <= found <= seen + (lines[1] - lines[0])
    assert found <= np.linalg.eigvalsh((A + A.conj().T) / 2)[-1] + eps


@settings(max_examples=25)
@given(st.integers(0, 2**32 - 1), st.integers(2, 8), st.sampled_from([1e-6, 1e-3, 0.1, 1.0]))
def test_no_perturbation_goes_beyond_the_abscissa(seed: int, n: int, eps: float):
    rng = np.random.default_rng(seed)
    A = np.triu(rng.standard_normal((n, n))) + 1j * np.diag(rng.standard_normal(n))
    found = pseudospectra(A, points=2).abscissa(eps)
    assert found >= A.diagonal().real.max() + eps * (1 - 1e-9)
    for _ in range(30):
        u, v = (w / np.linalg.norm(w) for w in rng.standard_normal((2, n, 2)) @ [1, 1j])
        assert np.linalg.eigvals(A + eps * np.outer(u, v)).real.max() <= found + 1e-7


@pytest.mark.parametrize("eps", [-1.0, np.nan, np.inf])
def test_abscissa_refuses(eps: float):
    with pytest.raises(ArgumentError, match=f"eps must be finite and not negative, got {eps:g}"):
        pseudospectra(np.eye(2), points=2).abscissa(eps)


def curve_error(found: Pseudospectra, A: Any, level: float) -> float:
    """How far sigma_min is from the level where the rows of the grid say it is crossed."""
    log = np.log(found.sigma.numpy() / level)
    row, k = np.nonzero(log[:, 1:] * log[:, :-1] < 0)
    share = log[row, k] / (log[row, k] - log[row, k + 1])
    x, y = found.x.numpy(), found.y.numpy()
    places = x[k] + share * (x[k + 1] - x[k]) + 1j * y[row]
    return max(abs(sigma_min(A, z) / level - 1) for z in places)


@pytest.mark.parametrize(
    ("name", "rel"), [("grcar:24", 1e-3), pytest.param("legs:40", 0.1, marks=pytest.mark.slow), ("bull-head:24", 0.03)]
)
def test_refined_near_a_level_curve(name: str, rel: float):
    A = gallery.matrix(name).numpy()
    level = rel * size(A)
    coarse, fine = (pseudospectra(A, points=points) for points in (41, 161))
    refined = coarse.refined(level).refined(level)
    assert refined.sigma.shape == fine.sigma.shape
    assert refined.x.numpy() == pytest.approx(fine.x.numpy())
    # As good as the full grid where it matters, at a third of its places.
    assert curve_error(refined, A, level) <= 1.001 * curve_error(fine, A, level) < 0.3 * curve_error(coarse, A, level)
    assert int(refined.computed.sum()) < fine.sigma.numel() / 3
    computed = refined.computed.numpy()
    assert refined.sigma.numpy()[computed] == pytest.approx(fine.sigma.numpy()[computed], rel=1e-4)
    assert refined.abscissa(level) == coarse.abscissa(level)


def test_refinement_sees_what_the_grid_missed():
    A = np.diag([0.0, 1.0 + 1.0j])
    coarse = pseudospectra(A, points=8)
    assert float(coarse.sigma.min()) > 1e-2
    refined = coarse.refined(1e-3)
    for _ in range(5):
        refined = refined.refined(1e-3)
    assert float(refined.sigma.min()) <= 2e-3
    assert int(refined.computed.sum()) < 0.1 * refined.sigma.numel()


def test_refined_with_no_curve_in_sight():
    found = pseudospectra(np.eye(2), points=3, box=(3.0, 4.0, 3.0, 4.0)).refined(1e-3)
    assert int(found.computed.sum()) == 9
    assert pseudospectra(np.eye(2), points=1).refined(1.0).sigma.shape == (1, 1)


@pytest.mark.parametrize("unit", [2.0**-960, 2.0**-550, 2.0**-50, 2.0**550, 2.0**1000])
@pytest.mark.parametrize("n", [8, 40])
def test_the_unit_of_A_does_not_matter(n: int, unit: float):
    A = gallery.matrix(f"legs:{n}")
    here, there = pseudospectra(A, points=7), pseudospectra(unit * A, points=7)
    for name in ("x", "y", "sigma"):
        assert (getattr(there, name) / unit).numpy() == pytest.approx(getattr(here, name).numpy(), rel=1e-9)
    assert there.abscissa(unit) / unit == pytest.approx(here.abscissa(1.0), rel=1e-9)
    again = there.refined(unit * 10.0).sigma / unit
    assert again.numpy() == pytest.approx(here.refined(10.0).sigma.numpy(), rel=1e-6)
    assert departure_from_normality(unit * A) / unit == pytest.approx(departure_from_normality(A), rel=1e-9)
    assert eigenvector_condition(unit * gallery.matrix("legs:8")) == pytest.approx(
        eigenvector_condition(gallery.matrix("legs:8")), rel=1e-9
    )


def test_results_beyond_the_largest_float():
    with pytest.raises(NotFiniteError, match="divide A by"):
        pseudospectra(np.full((3, 3), 1.7e308), points=2)


@pytest.mark.parametrize("name", ["well-conditioned", "fout", "random-triangular", "bull-head", "davies"])
def test_departure_from_normality(name: str):
    A = gallery.MATRICES[name](9).numpy()
    squared = np.linalg.norm(A) ** 2 - np.sum(np.abs(np.linalg.eigvals(A)) ** 2)
    assert departure_from_normality(A) == pytest.approx(np.sqrt(squared), rel=1e-8)


def test_departure_of_normal_and_nilpotent_matrices():
    for A in (np.eye(3), np.zeros((2, 2)), np.roll(np.eye(5), 1, axis=0), np.array([[1.0, 2.0], [2.0, 5.0]])):
        assert departure_from_normality(A) == pytest.approx(0, abs=1e-13)
    assert departure_from_normality(torch.eye(4)) == 0
    assert departure_from_normality(gallery.matrix("jordan:5")) == pytest.approx(2)


def test_errors():
    batch = np.zeros((2, 3, 3))
    for call in (pseudospectra, departure_from_normality):
        with pytest.raises(ShapeError, match=r"one matrix at a time, got a batch \(2,\)"):
            call(batch)
        with pytest.raises(NotFiniteError, match="inf"):
            call([[np.inf]])
    with pytest.raises(ShapeError, match="points must be at least 1, got 0"):
        pseudospectra(np.eye(2), points=0)
    with pytest.raises(ArgumentError, match=r"left < right and bottom < top, got \(1\.0, 0\.0, 0\.0, 1\.0\)"):
        pseudospectra(np.eye(2), box=(1.0, 0.0, 0.0, 1.0))


@pytest.mark.parametrize(
    "box", [(0, 1), 5, "abcd", (0, 1, 0, np.inf), (0.0, np.nan, 0.0, 1.0), (0, 1j, 0, 1), [[0, 1, 0, 1]]]
)
def test_boxes_that_are_none(box: Any):
    unchecked: Any = getattr(pseudospectra, "__wrapped__", pseudospectra)
    with pytest.raises(ArgumentError, match=r"box must be \(left, right, bottom, top\) .*, got "):
        unchecked(np.eye(2), box=box)
