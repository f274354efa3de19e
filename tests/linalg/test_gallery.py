from __future__ import annotations

import numpy as np
import pytest
import torch

from wellposed import departure_from_normality
from wellposed.errors import ArgumentError, UnknownNameError
from wellposed.hippo import legs
from wellposed.linalg import gallery
from wellposed.linalg.gallery import matrix


@pytest.mark.parametrize("n", [1, 2, 3, 17])
@pytest.mark.parametrize("name", gallery.MATRICES)
def test_every_name_at_every_size(name: str, n: int):
    A = matrix(f"{name}:{n}")
    assert A.shape == (n, n)
    assert A.dtype in (torch.float64, torch.complex128)
    assert bool(torch.isfinite(torch.view_as_real(A) if A.is_complex() else A).all())
    assert torch.equal(A, matrix(f"{name}:{n}"))


def test_there_are_twenty_and_complex_ones():
    assert len(gallery.MATRICES) >= 20
    assert sum(make(4).is_complex() for make in gallery.MATRICES.values()) >= 3


@pytest.mark.parametrize("name", gallery.MATRICES)
def test_not_normal(name: str):
    A = gallery.MATRICES[name](12)
    assert departure_from_normality(A) > 1e-2 * torch.linalg.matrix_norm(A, 2)


def test_closed_facts():
    assert np.sort(np.linalg.eigvals(matrix("wilkinson:8").numpy()).real) == pytest.approx(np.arange(1, 9), rel=1e-5)
    assert np.linalg.det(matrix("frank:8").numpy()) == pytest.approx(1)
    assert matrix("frank:4").tolist() == [[4, 3, 2, 1], [3, 3, 2, 1], [0, 2, 2, 1], [0, 0, 1, 1]]
    # Cayley-Hamilton: the companion matrix of (z - 1)^5 has A - I nilpotent of index 5 exactly.
    N = matrix("companion:5").numpy() - np.eye(5)
    assert not np.linalg.matrix_power(N, 5).any()
    assert np.linalg.matrix_power(N, 4).any()
    J = matrix("jordan:6").numpy()
    assert not np.linalg.matrix_power(J, 6).any()
    assert np.linalg.matrix_power(J, 5).any()
    assert np.linalg.matrix_rank(matrix("two-jordans:7").numpy()) == 5
    assert matrix("grcar:5")[0].tolist() == [1, 1, 1, 1, 0]
    assert matrix("grcar:5")[4].tolist() == [0, 0, 0, -1, 1]
    assert torch.equal(matrix("legs:9"), legs(9)[0])
    assert np.linalg.norm(matrix("kahan:6").numpy(), axis=0)[0] == 1
    # The singular values of the convection matrix's symmetric part are those of -u'': negative definite.
    S = matrix("convection:10").numpy()
    assert np.linalg.eigvalsh(S + S.T).max() < 0


def test_matrices_of_other_fields():
    # Godunov: by exact integers the characteristic polynomial is z (z^2 - 1) (z^2 - 4) (z^2 - 16).
    G = [[int(x) for x in row] for row in matrix("godunov:7").tolist()]
    assert characteristic_polynomial(G) == [1, 0, -21, 0, 84, 0, -64, 0]
    assert torch.equal(matrix("godunov:9")[7:, 7:], matrix("godunov:7")[:2, :2])
    C = matrix("clement:9").numpy()
    assert np.sort(np.linalg.eigvals(C).real) == pytest.approx(np.arange(-8.0, 9.0, 2.0), abs=1e-9)
    # The determinant of Redheffer's matrix is Mertens' function: M(12) = -2.
    assert np.linalg.det(matrix("redheffer:12").numpy()) == pytest.approx(-2)
    D = matrix("chebyshev:12").numpy()
    x = np.cos(np.pi / 12 * np.arange(1, 13))
    np.testing.assert_allclose(D @ (x - 1) ** 3, 3 * (x - 1) ** 2, atol=1e-11)
    # Orszag's critical Reynolds number, 5772.22: the most unstable wave is just about neutral.
    assert abs(np.linalg.eigvals(matrix("orr-sommerfeld:50").numpy()).real.max()) < 2e-4


def characteristic_polynomial(A: list[list[int]]) -> list[int]:
    """By Faddeev and LeVerrier, in integers."""
    n, M, c = len(A), [[0] * len(A) for _ in A], [1]
    for k in range(1, n + 1):
        M = [[sum(A[i][m] * M[m][j] for m in range(n)) + c[-1] * (i == j) for j in range(n)] for i in range(n)]
        c.append(-sum(A[i][m] * M[m][i] for i in range(n) for m in range(n)) // k)
    return c


def test_transient_grows_before_it_decays():
    from scipy.linalg import expm

    A = matrix("transient:12").numpy()
    assert np.linalg.eigvals(A).real.max() < 0
    assert max(np.linalg.norm(expm(t * A), 2) for t in (1.0, 5.0, 10.0)) > 10
    assert np.linalg.norm(expm(100 * A), 2) < 1e-3


def test_names():
    with pytest.raises(UnknownNameError, match="unknown matrix 'jordon'; did you mean 'jordan'"):
        matrix("jordon:4")
    for name in ("jordan", "jordan:"):
        with pytest.raises(ArgumentError, match=r"lacks its size: write jordan:32"):
            matrix(name)
    for name in ("jordan:x", "jordan:-3", "jordan:0", "jordan:2.5", "jordan:4:4", "jordan:²"):
        with pytest.raises(
            ArgumentError, match=rf"size in '{name}' must be a whole number of at least 1: write jordan:32"
        ):
            matrix(name)
    with pytest.raises(ArgumentError, match=r"'jordan:3000000' is too large: .* at most 20000"):
        matrix("jordan:3000000")
