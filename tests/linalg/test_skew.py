from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from wellposed.errors import ShapeError
from wellposed.linalg import eig_shifted_skew


def shifted_skew(frequencies: list[float], n: int, c: float, seed: int) -> Tensor:
    """A random orthogonal change of coordinates of 2 x 2 rotations, zeros where there are too few of them."""
    rng = np.random.default_rng(seed)
    S = np.zeros((n, n))
    for k, mu in enumerate(frequencies[: n // 2]):
        S[2 * k, 2 * k + 1], S[2 * k + 1, 2 * k] = mu, -mu
    Q = np.linalg.qr(rng.normal(size=(n, n)))[0]
    S = Q @ S @ Q.T
    return torch.from_numpy(c * np.eye(n) + (S - S.T) / 2)


# Repeated, tiny and vanishing frequencies are what eigenvectors of a computer get wrong.
FREQUENCIES = st.lists(st.floats(0.1, 10) | st.sampled_from([0.0, 1.0, 1.0, 1e-3, 1e-6, 1e-9, 1e-12]), max_size=6)


@given(FREQUENCIES, st.integers(1, 12), st.floats(-3, 3), st.integers(0, 2**32 - 1))
def test_unitary_diagonalization_in_conjugate_pairs(frequencies: list[float], n: int, c: float, seed: int):
    N = shifted_skew(frequencies, n, c, seed)
    Lambda, V = eig_shifted_skew(N)
    assert torch.equal(Lambda.real, N.diagonal().mean().expand(n))
    h = int((Lambda.imag > 0).sum())
    assert torch.equal(Lambda[h : 2 * h], Lambda[:h].conj())
    assert torch.equal(V[:, h : 2 * h], V[:, :h].conj())
    assert bool((Lambda.imag[:h].diff() >= 0).all())
    assert not Lambda.imag[2 * h :].any()
    assert not V.imag[:, 2 * h :].any()
    # eigh is backward stable: a few dozen ulp of the norm, whatever the gaps.
    scale = N.abs().max().item() + 1e-300
    assert (V.mH @ V - torch.eye(n)).abs().max() < 1e-14 * n
    assert (V @ Lambda.diag() @ V.mH - N).abs().max() < 1e-14 * n * scale
    true = np.sort(np.linalg.eigvals(N.numpy()).imag)
    assert np.abs(np.sort(Lambda.imag.numpy()) - true).max() < 1e-13 * n * scale


@pytest.mark.parametrize("n", [1, 2, 7, 64])
def test_single_precision(n: int):
    N = shifted_skew([1.0, 2.0, 3.0], n, -0.5, 0).to(torch.float32)
    N = (N - N.mT) / 2 - 0.5 * torch.eye(n)
    Lambda, V = eig_shifted_skew(N)
    assert (Lambda.dtype, V.dtype) == (torch.complex64, torch.complex64)
    assert (V @ Lambda.diag() @ V.mH - N).abs().max() < 1e-5


def test_other_matrices_are_refused():
    with pytest.raises(ShapeError, match=r"reaches 1\.00e\+00 where \|N\| reaches 2\.00e\+00"):
        eig_shifted_skew(torch.tensor([[0.0, 2.0], [-1.0, 0.0]], dtype=torch.float64))
