"""Eigenvalues and eigenvectors of A + E, sorted, paired and scaled: what a candidate perturbation is judged by."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from wellposed.linalg._clusters import orthonormal_in_clusters
from wellposed.linalg._condition import Scaling, optimal_scaling
from wellposed.linalg._matrix import Array, norm2, singular_values
from wellposed.linalg._spectrum import eig

_ULP = float(np.finfo(float).eps)
_ULPS = 4 * _ULP  # times the Frobenius norm: more than LAPACK's errors come to
_HUGE = 1e100  # entries of V^-1 beyond this mean a defective matrix, and their squares would overflow


@dataclass(frozen=True, eq=False)
class Eigen:
    """``(A + E) V = V diag(lam)`` with unit columns, and ``W = V^-1``; real E keeps conjugate pairs exact.

    For a real matrix the order is: eigenvalues above the real axis by imaginary part, their conjugates in the same
    order, then the real ones. For a complex matrix: by imaginary part, then real part.
    """

    M: Array
    """``A + E``."""
    E: Array
    lam: Array
    V: Array
    W: Array
    pairs: int
    """How many conjugate pairs lead the list; 0 for a complex matrix."""

    @cached_property
    def balanced_condition(self) -> float:
        """Condition number with ``|v_j| = |w_j|``: an upper bound of the infimum, cheap and close."""
        if not np.abs(self.W).max() < _HUGE:
            return np.inf
        d = np.sqrt(np.linalg.norm(self.W, axis=1))
        s = singular_values(self.V * d)
        return float(s[0] / s[-1]) if s[-1] > 0 else np.inf

    @cached_property
    def scaling(self) -> Scaling:
        """Column lengths for which the condition number is the infimum."""
        found, p = optimal_scaling(self.V, self.W), self.pairs
        if np.array_equal(found.d[:p], found.d[p : 2 * p]):
            return found
        d = found.d.copy()
        d[:p] = d[p : 2 * p] = np.sqrt(d[:p] * d[p : 2 * p])  # kappa is log-convex: a mean of mirror images is no worse
        return Scaling(d, norm2(self.V * d) * norm2(self.W / d[:, None]), found.lower)

    @property
    def abscissa(self) -> float:
        """Largest real part of an eigenvalue."""
        return float(self.lam.real.max())

    @cached_property
    def certain_abscissa(self) -> float:
        """What no eigenvalue of ``A + E`` exceeds in its real part, rounding errors considered.

        Eigenvalues are those of a matrix a few ulp away, and move by kappa times that at most (Bauer-Fike).
        """
        kappa = self.balanced_condition
        whole = _ULPS * kappa * float(np.linalg.norm(self.M)) if np.isfinite(kappa) else np.inf
        bound = self.abscissa + whole
        # Entry by entry only where that may decide: graded matrices have small eigenvalues that are known very well.
        return min(bound, self._gershgorin()) if self.abscissa < 0 <= bound < np.inf else bound

    def _gershgorin(self) -> float:
        """The same from discs around the computed eigenvalues: ``W (A + E) V = diag(lam) + W (M V - V diag(lam))``."""
        residual = np.abs(self.M @ self.V - self.V * self.lam)
        rounding = np.abs(self.M) @ np.abs(self.V) + np.abs(self.V) * np.abs(self.lam)
        radius = (np.abs(self.W) @ (residual + (len(self.lam) + 2) * _ULP * rounding)).sum(axis=1)
        return float((self.lam.real + radius).max())

    @property
    def real_eigenvalues(self) -> int:
        """How many eigenvalues of a real matrix are real."""
        return len(self.lam) - 2 * self.pairs

    @property
    def gap(self) -> float:
        """Smallest distance of two eigenvalues."""
        if len(self.lam) < 2:
            return np.inf
        distance = np.abs(self.lam[:, None] - self.lam)
        return float(distance[~np.eye(len(self.lam), dtype=bool)].min())


def eigen(A: Array, E: Array) -> Eigen:
    """Diagonalise ``A + E``; a defective matrix gives an infinite ``W`` and so an infinite condition number."""
    M = A + E
    lam, V = orthonormal_in_clusters(M, *_eig(M))
    if np.iscomplexobj(M):
        order = np.lexsort((np.real(lam), np.imag(lam)))
        lam, V, pairs = lam[order], V[:, order], 0
    else:
        lam, V, pairs = _paired(lam, V)
    try:
        W = np.linalg.inv(V)
    except np.linalg.LinAlgError:
        W = np.full_like(V, np.inf)
    if pairs and np.isfinite(W).all():
        # The mean of two inverses is one; overwriting one half by the other would leave their rounding errors in V W.
        mean = W[:pairs] / 2 + W[pairs : 2 * pairs].conj() / 2
        W[:pairs], W[pairs : 2 * pairs] = mean, mean.conj()
        W[2 * pairs :] = W[2 * pairs :].real
    return Eigen(M, E, lam, V, W, pairs)


def _eig(M: Array) -> tuple[Array, Array]:
    """Eigenvalues and unit eigenvectors with a residual of a few ulp.

    LAPACK balances before it starts, which costs matrices with a few tiny entries most of their digits; reflected
    coordinates leave nothing to balance.
    """
    lam, V, residual = _unit_eig(M)
    if residual > 1e-14 * len(M) * np.abs(M).max():
        w = np.random.default_rng(0).standard_normal(len(M))  # any direction without zeros; always the same one
        Q = np.eye(len(M)) - 2 / (w @ w) * np.outer(w, w)
        again = _unit_eig(M, Q)
        lam, V, _ = again if again[2] < residual else (lam, V, residual)
    return lam, V


def _unit_eig(M: Array, Q: Array | None = None) -> tuple[Array, Array, float]:
    lam, V = (np.asarray(part, dtype=complex) for part in eig(M if Q is None else Q @ M @ Q))
    V = V if Q is None else Q @ V
    V = V / np.linalg.norm(V, axis=0)
    return lam, V, float(np.abs(M @ V - V * lam).max())


def _paired(lam: Array, V: Array) -> tuple[Array, Array, int]:
    upper = np.flatnonzero(lam.imag > 0)
    upper = upper[np.lexsort((lam[upper].real, lam[upper].imag))]
    real = np.flatnonzero(lam.imag == 0)
    real = real[np.argsort(lam[real].real)]
    lam = np.concatenate([lam[upper], lam[upper].conj(), lam[real]])
    V = np.concatenate([V[:, upper], V[:, upper].conj(), V[:, real].real.astype(complex)], axis=1)
    return lam, V, len(upper)
