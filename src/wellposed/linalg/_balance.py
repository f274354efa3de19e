"""Balanced coordinates: lengths of the basis vectors at which rows and columns of a matrix are about equally long.

LAPACK's choice (Parlett and Reinsch 1969), powers of two: going there and back rounds nothing.
"""

from __future__ import annotations

import numpy as np

from wellposed.errors import ArgumentError
from wellposed.linalg._eigen import Eigen
from wellposed.linalg._matrix import Array

_WIDEST = 60  # powers of ten between balanced lengths: squares of quotients are still floats


def balanced_lengths(A: Array) -> Array:
    """The lengths ``l``: ``diag(l)^-1 A diag(l)`` is balanced."""
    from scipy.linalg import get_lapack_funcs

    # Without the permutation, which would leave triangular parts as badly scaled as they are. Not by scipy's
    # matrix_balance, which makes integers of the lengths.
    return get_lapack_funcs(("gebal",), (A,))[0](A, scale=True, permute=False)[3]


def to_lengths(M: Array, lengths: Array) -> Array:
    """``diag(l)^-1 M diag(l)``: the same map, seen by one who measures with these lengths."""
    power = np.log2(lengths) - np.log2(lengths)[:, None]
    half = np.floor(power / 2)  # in two steps, as the quotient of two lengths need not be a float
    return M * np.exp2(half) * np.exp2(power - half)


def back_from_lengths(A: Array, result: Eigen, lengths: Array) -> Eigen:
    """A diagonalisation of the balanced matrix as one of ``A``, where all has been done at these lengths."""
    spread = np.log10(lengths.max()) - np.log10(lengths.min())
    if spread > _WIDEST:
        raise ArgumentError(
            f"balanced coordinates have lengths over 1e{spread:.0f}, E in those of A would lose its small entries: "
            "balance A yourself (scipy.linalg.matrix_balance) and stay there"
        )
    E, V = to_lengths(result.E, 1 / lengths), result.V * lengths[:, None]
    size = np.linalg.norm(V, axis=0)
    return Eigen(A + E, E, result.lam, V / size, result.W / lengths * size[:, None], result.pairs)
