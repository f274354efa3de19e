"""The smallest perturbation with a given condition number, where kappa does not fall steadily with the size."""

from __future__ import annotations

import numpy as np
import pytest

from wellposed import ptd


def demmel(n: int) -> np.ndarray:
    """Powers of 1e4^(1/(n - 1)) above the diagonal."""
    i = np.arange(n)
    return -np.triu(1e4 ** ((i - i[:, None]) / (n - 1)))


def redheffer(n: int) -> np.ndarray:
    """1 in the first column and where i divides j."""
    i = np.arange(1, n + 1)
    return ((i % i[:, None] == 0) | (i == 1)).astype(float)


def test_a_dip_at_smaller_sizes_is_found():
    # The closed form has kappa 121 at rel 0.0128, 28 at 0.0013 and 51 at 0.00038.
    d = ptd(demmel(12), cond=50)
    assert d.condition <= 50
    assert d.rel < 4.3e-4
    V, E = d.V.numpy(), d.E.numpy()
    assert np.linalg.cond(V) <= 50 * (1 + 1e-9)
    assert np.linalg.norm((V * d.Lambda.numpy()) @ d.V_inv.numpy() - demmel(12) - E) < 1e-9 * np.linalg.norm(demmel(12))


@pytest.mark.parametrize("n", [16, 32])
def test_multiple_eigenvalues_are_no_obstacle(n: int):
    """Of a Redheffer matrix most eigenvalues are 1; some of them stay what they are under any small perturbation."""
    d = ptd(redheffer(n), cond=10)
    assert d.condition <= 10
    assert d.rel < 0.1
