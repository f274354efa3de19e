"""A random perturbation: what Theorem 4 of the paper is about."""

from __future__ import annotations

import numpy as np

from wellposed.linalg._eigen import Eigen, eigen
from wellposed.linalg._matrix import Array, norm2


def gaussian(A: Array, eps: float, seed: int, *, complex_valued: bool) -> Eigen:
    """Diagonalise ``A + E`` with a Ginibre matrix E scaled to ``||E|| = eps``."""
    rng = np.random.default_rng(seed)
    G = rng.standard_normal(A.shape)
    if complex_valued:
        G = G + 1j * rng.standard_normal(A.shape)
    return eigen(A, eps / norm2(G) * G)
