"""Eigenvectors of multiple eigenvalues: an orthonormal basis in place of whatever LAPACK returns.

Where an eigenvalue comes more than once, every basis of its eigenspace is a set of eigenvectors, and the one that
substitution gives is anything, nearly dependent vectors included. docs/devdocs/condition.md#multiple-eigenvalues
"""

from __future__ import annotations

import numpy as np

from wellposed.linalg._matrix import Array

_CLOSE = 1e-8  # of ||M||: eigenvalues nearer to each other are looked at together
_ORTHONORMAL = 1e-6  # a basis this near to an orthonormal one is left as it is
_ULPS = 8 * float(np.finfo(float).eps)  # times sqrt(n) ||M||: a residual that rounding alone may leave
_SWEEPS = 3  # of inverse iteration; a cluster is far closer to itself than to anything else


def orthonormal_in_clusters(M: Array, lam: Array, V: Array) -> tuple[Array, Array]:
    """``lam`` and ``V`` as ``eig`` returns them, with orthonormal eigenvectors wherever an eigenvalue is semisimple.

    A cluster whose eigenvectors are not complete, to rounding, is left as it is.
    """
    scale = float(np.linalg.norm(M))
    for members in _clusters(lam, _CLOSE * scale):
        Z = V[:, members]
        if np.abs(Z.conj().T @ Z - np.eye(len(members))).max() < _ORTHONORMAL:
            continue
        if np.isrealobj(M) and (lam[members].imag < 0).all():
            continue  # done together with the conjugate ones
        found = _basis(M, lam[members], scale)
        if found is None:
            continue
        lam[members], V[:, members] = found
        if np.isrealobj(M) and (lam[members].imag > 0).all():
            lower = members + 1  # LAPACK lists conjugate pairs side by side, the upper one first
            lam[lower], V[:, lower] = lam[members].conj(), V[:, members].conj()
    return lam, V


def _clusters(lam: Array, near: float) -> list[Array]:
    """Indices of eigenvalues that lie within ``near`` of each other, or are linked by such; single ones left out."""
    close = np.abs(lam[:, None] - lam) <= near
    if close.sum() == len(lam):
        return []
    from scipy.sparse.csgraph import connected_components

    count, label = connected_components(close, directed=False)
    parts = (np.flatnonzero(label == k) for k in range(count))
    return [part for part in parts if len(part) > 1]


def _basis(M: Array, lam: Array, scale: float) -> tuple[Array, Array] | None:
    """Eigenvalues and orthonormal eigenvectors of a cluster, by inverse iteration on a whole basis."""
    from scipy.linalg import get_lapack_funcs, lu_solve, schur

    n, k = len(M), len(lam)
    rounding = _ULPS * np.sqrt(n) * scale
    centre = lam.mean()
    centre = centre.real if np.isrealobj(M) and abs(centre.imag) <= rounding else centre
    # Beside the eigenvalue by more than it is known, so that nothing is divided by zero.
    shifted = M - (centre + rounding) * np.eye(n)
    factors, pivots, _ = get_lapack_funcs(("getrf",), (shifted,))[0](shifted)
    factors[np.diag_indices(n)] += rounding * (factors.diagonal() == 0)  # if that hits another of the cluster
    Z = np.linalg.qr(np.random.default_rng(0).standard_normal((n, k)))[0]
    for _ in range(_SWEEPS):
        solved = lu_solve((factors, pivots), Z)
        if not np.isfinite(solved).all():  # a long Jordan block: powers of 1 / rounding
            return None
        Z = np.linalg.qr(solved)[0]
    small, turn = schur(Z.conj().T @ M @ Z, output="real" if np.isrealobj(Z) else "complex")[:2]
    Z, values = Z @ turn, small.diagonal()
    if not np.linalg.norm(M @ Z - Z * values) <= rounding * np.sqrt(k):
        return None
    return values, Z
