from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from scipy.optimize import brentq

from wellposed import departure_from_normality, pseudospectra
from wellposed.errors import ArgumentError, NotFiniteError, ShapeError
from wellposed.linalg import gallery

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
    true = brentq(lambda r: sigma_min(A, r) - eps, 1e-3, 3.0, xtol=1e-12)
    # An odd number of points puts a row on the real axis.
    assert pseudospectra(A, points=61).abscissa(eps) == pytest.approx(true, rel=1e-6)
    assert pseudospectra(A, points=61).abscissa(eps) < np.cos(np.pi / 11) + eps


@pytest.mark.parametrize("name", ["grcar", "bull-head"])
def test_abscissa_between_bounds(name: str):
    A = gallery.MATRICES[name](14).numpy()
    found = pseudospectra(A, points=80)
    sizes = (0.1, 0.3, 1.0)
    values = [found.abscissa(eps) for eps in sizes]
    assert values == sorted(values)
    for eps, value in zip(sizes, values, strict=True):
        range_end = np.linalg.eigvalsh((A + A.conj().T) / 2)[-1]
        assert value <= range_end + eps
        # Some perturbation of size eps has an eigenvalue as far right as a place of the grid inside.
        inside = found.sigma.numpy() <= eps
        assert value >= np.broadcast_to(found.x.numpy(), inside.shape)[inside].max()


def test_abscissa_where_the_grid_is_too_coarse():
    assert np.isnan(pseudospectra(np.eye(2), points=3, box=(3.0, 4.0, 3.0, 4.0)).abscissa(0.1))


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
