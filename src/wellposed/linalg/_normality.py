"""How far a matrix is from having orthogonal eigenvectors."""

from __future__ import annotations

from typing import Any

import numpy as np

from wellposed.linalg._eigen import eigen
from wellposed.linalg._matrix import as_matrix, from_unit, to_unit, unit_of
from wellposed.linalg._spectrum import schur


def departure_from_normality(A: Any) -> float:
    """Henrici's departure: the Frobenius norm of the strictly upper part of the Schur form; 0 for a normal matrix."""
    A = as_matrix(A)
    unit = unit_of(A)
    upper = np.triu(schur(to_unit(A, unit))[0], 1)
    return from_unit(unit, np.array([np.linalg.norm(upper)]))[0].item()


def eigenvector_condition(A: Any) -> float:
    """Condition number of the eigenvectors that LAPACK computes for ``A``, the infimum over their lengths to 1 %.

    They belong to a matrix within rounding of ``A``; where an eigenvalue comes more than once, an orthonormal basis of
    its eigenspace takes their place, so that a normal matrix has 1. For a defective ``A``, which has no such number,
    that neighbour's is returned: about 1e8 for a 2 x 2 Jordan block in general position, more for longer ones, and
    infinity only where the computed vectors are dependent. Read 1e8 and beyond as "at least":
    docs/devdocs/condition.md.
    """
    A = as_matrix(A)
    result = eigen(to_unit(A, unit_of(A)), np.zeros_like(A))
    return result.scaling.condition if np.isfinite(result.balanced_condition) else float("inf")
