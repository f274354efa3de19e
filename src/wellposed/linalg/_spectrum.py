"""Eigenvalues and Schur forms from LAPACK, also where its iteration stalls among entries of very different size."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from wellposed.linalg._matrix import Array

_NEGLIGIBLE = 1e-100  # of the largest entry, far below its rounding; products of such entries vanish: QR steps stall


def eig(M: Array) -> tuple[Array, Array]:
    """Eigenvalues and eigenvectors."""
    return _again(np.linalg.eig, M)


def eigenvalues(M: Array) -> Array:
    """Eigenvalues alone."""
    return _again(np.linalg.eigvals, M)


def schur(M: Array) -> tuple[Array, Array]:
    """``T`` and ``Q`` of ``M = Q T Q^*``, complex."""
    from scipy.linalg import schur

    return _again(lambda M: schur(M, output="complex")[:2], M)


def _again(decompose: Callable[[Array], Any], M: Array) -> Any:
    """The decomposition; without negligible entries where the iteration does not converge with them."""
    try:
        return decompose(M)
    except np.linalg.LinAlgError:
        with np.errstate(over="ignore"):
            size = np.abs(M)
        return decompose(np.where(size < _NEGLIGIBLE * size.max(), 0, M))
