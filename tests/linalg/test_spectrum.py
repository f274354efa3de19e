"""LAPACK's iterations may stall where entries of 1e-200 stand beside others of 1."""

from __future__ import annotations

import numpy as np
import pytest

from wellposed import ptd
from wellposed.linalg import departure_from_normality, eigenvector_condition
from wellposed.linalg._matrix import Array
from wellposed.linalg._spectrum import _again, eigenvalues
from wellposed.systems import DenseSystem

# Without help eigvals of this one ends in an error, with the LAPACK of these tests.
SIZES = [3.292e-175, 4.395e128, 1.295e280, 9.958e-220, 4.692e-103, 2.442e-70, 7.276e207]
SIGNS = [
    [1, 0, -1, 0, 0, 0, 1],
    [-1, 0, 1, 0, 0, 2, -1],
    [0, -2, 0, -1, 0, 0, 0],
    [-1, -1, 1, 0, 0, -1, 1],
    [0, 1, 1, -1, -2, 1, 1],
    [1, 0, -1, 2, 1, 0, 0],
    [-1, -1, 1, 1, 1, 0, -1],
]
GRADED = np.array(SIZES)[:, None] * np.array(SIGNS)


def test_entries_of_every_size():
    assert np.isfinite(DenseSystem(GRADED, np.ones(7), np.ones(7)).poles().numpy()).all()
    assert departure_from_normality(GRADED) <= np.linalg.norm(GRADED / 1e280) * 1e280 * (1 + 1e-12)
    assert eigenvector_condition(GRADED) >= 1
    assert ptd(GRADED).condition < 4


def test_what_stalls_is_tried_without_negligible_entries():
    def stalls(M: Array) -> Array:
        if 0 < np.abs(M[M != 0]).min() < 1e-150:
            raise np.linalg.LinAlgError
        return np.linalg.eigvals(M)

    assert sorted(_again(stalls, np.array([[2.0, 1e-200], [1e-90, 1.0]])).tolist()) == [1, 2]
    with pytest.raises(np.linalg.LinAlgError):
        eigenvalues(np.array([[np.inf, 1.0], [0.0, 1.0]]))
