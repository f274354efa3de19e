"""Stable means stable: a real part below zero that rounding errors cannot have made."""

from __future__ import annotations

from typing import Any

import mpmath
import numpy as np
import pytest

from wellposed import hippo, ptd
from wellposed.errors import UnstableError
from wellposed.linalg import gallery


def exact_abscissa(M: Any) -> float:
    """Largest real part of an eigenvalue, from 50 digits."""
    with mpmath.workdps(50):
        return float(max(mpmath.re(x) for x in mpmath.eig(mpmath.matrix(M.tolist()), right=False)))


ON_THE_AXIS = {
    "oscillator": np.array([[-1.0, 2.0], [-1.0, 1.0]]),  # eigenvalues i and -i
    "skew": np.array([[0.0, 3.0, 1.0], [-3.0, 0.0, 2.0], [-1.0, -2.0, 0.0]]),
    "fout": hippo.fout(6)[0].numpy(),  # of even size: a pole at 0
    "singular": np.array([[-1.0, 1.0, 0.0], [1.0, -2.0, 1.0], [0.0, 1.0, -1.0]]) / 3,
}


@pytest.mark.parametrize("name", ON_THE_AXIS)
def test_an_eigenvalue_on_the_axis_is_not_taken_for_stable(name: str):
    A = ON_THE_AXIS[name]
    try:
        d = ptd(A, stable=True)
    except UnstableError:
        return
    assert d.rel > 0
    assert exact_abscissa(A + d.E.numpy()) < 0


def test_what_is_too_close_to_call_is_said():
    with pytest.raises(UnstableError, match=r"negative by more than rounding can fake \(\d\.?\d*e-1\d\), reached -"):
        ptd(-1e-17 * np.eye(2) + [[0.0, 1.0], [-1.0, 0.0]], stable=True, rel=1e-20)


@pytest.mark.parametrize("diagonal", [[-1e-17, -1.0], [-1e-30, -1e30, -1.0], [-1e-18 + 1e-18j, -1.0]])
def test_small_eigenvalues_that_are_known_well_are_stable(diagonal: Any):
    assert ptd(np.diag(diagonal), stable=True).method == "none"


@pytest.mark.parametrize("name", ["legs:7", "transient:6", "convection:5", "kahan:6"])
def test_stable_neighbours_are_stable_in_fifty_digits(name: str):
    A = gallery.matrix(name).numpy() - (2.0 * np.eye(6) if name.startswith("kahan") else 0)
    assert exact_abscissa(A + ptd(A, stable=True, rel=1e-3).E.numpy()) < 0
