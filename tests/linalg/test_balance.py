from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.linalg import matrix_balance

from wellposed import ptd
from wellposed.errors import ArgumentError
from wellposed.linalg import Diagonalization, gallery

NAMES = ("wilkinson:20", "demmel:10", "random-sparse:8")


@pytest.mark.parametrize("name", NAMES)
def test_the_same_neighbour_in_both_coordinates(name: str):
    A = gallery.matrix(name)
    d = ptd(A, rel=0.01, balance=True)
    B, (lengths, _) = matrix_balance(A.numpy(), permute=False, separate=True)
    assert d.balanced is not None
    assert (d.balanced.A.numpy() == B).all()  # pyright: ignore[reportOptionalMemberAccess]
    assert (d.A == A).all()
    assert d.balanced.rel == pytest.approx(0.01)
    np.testing.assert_array_equal(d.E.numpy(), d.balanced.E.numpy() * lengths[:, None] / lengths)
    # Each entry of A + E, relative to its own size in balanced coordinates.
    error = ((d.V * d.Lambda) @ d.V_inv - A - d.E).numpy() / lengths[:, None] * lengths
    assert np.abs(error).max() < 1e-10 * np.abs(B).max()
    assert (d.Lambda == d.balanced.Lambda).all()


def test_a_companion_matrix_of_norm_1e19():
    A = gallery.matrix("wilkinson:20")
    plain, balanced = ptd(A, rel=1e-3), ptd(A, rel=1e-3, balance=True)
    assert "pass balance=True" in str(plain)
    text = str(balanced)
    assert "in balanced coordinates" in text
    assert "A as given" in text
    assert "pass balance=True" not in text
    assert balanced.balanced is not None
    # The roots are 1 to 20: a thousandth of 2e19 moves them beyond recognition, a thousandth of 300 does not.
    assert balanced.abscissa < 100
    assert np.abs(plain.Lambda.numpy()).max() > 1e6
    assert f"kappa(V) = {balanced.balanced.condition:.4g}" in text


def test_batches_halves_and_files(tmp_path: Path):
    A = np.stack([gallery.matrix(name).numpy() for name in ("wilkinson:6", "frank:6")])
    d = ptd(A, balance=True)
    assert d.balanced is not None
    assert d.balanced.batch_shape == (2,)
    one = ptd(A[0], balance=True)
    assert (d.E[0] == one.E).all()
    half = one.half()
    assert half.balanced is not None
    assert half.balanced.modes == half.modes
    for saved in (d, one, half, ptd(A[0] + 1j * A[1], balance=True)):
        again = Diagonalization.load(saved.save(tmp_path / "d.safetensors"))
        assert again.balanced is not None
        assert saved.balanced is not None
        assert (again.balanced.V == saved.balanced.V).all()
        assert str(again) == str(saved)


def test_what_needs_no_balance_stays():
    A = np.array([[1.0, 2.0], [0.5, -1.0]])
    plain, balanced = ptd(A, method="rank-one"), ptd(A, method="rank-one", balance=True)
    assert plain.balanced is None
    np.testing.assert_allclose(plain.E, balanced.E)


def test_lengths_too_different_are_refused():
    A = np.array([[1.0, 1e200, 0.0], [0.0, 1.0, 1e200], [1e-200, 0.0, 1.0]])
    with pytest.raises(ArgumentError, match="lengths over 1e"):
        ptd(A, balance=True, method="gaussian")
