"""The smallest singular value of ``zI - T`` for triangular T and many z: docs/devdocs/pseudospectra.md."""

from __future__ import annotations

import numpy as np

from wellposed.linalg._matrix import Array

_SMALL = 32  # up to here a singular value decomposition at every place is as fast
_BLOCK = 32  # rows solved one by one, before a product takes care of all the others
_CHECKS = (6, 8, 11, 15, 20, 27, 36, 48, 64, 80, 100)  # Lanczos steps; looking costs more than two of them
_RESIDUAL = 1e-5  # relative; the Ritz value is then good to its square, ten digits
_HUGE = 1e140  # its square is still a float
_CHUNK = 200  # places worked on together: more memory gains no time


def sigma_min(T: Array, z: Array) -> Array:
    """Smallest singular value of ``zI - T`` on a grid ``z``, for triangular T of entries about 1.

    Each row of the grid starts from the singular vectors of the last, with as much noise, so that none is out of reach.
    """
    if len(T) <= _SMALL:
        return np.array([_by_svd(T, row) for row in z])
    rng = np.random.default_rng(0)
    start = np.zeros((len(T), z.shape[1]), dtype=complex)
    sigma = np.empty(z.shape)
    for k, row in enumerate(z):
        noise = rng.standard_normal(start.shape) + 1j * rng.standard_normal(start.shape)
        sigma[k], start = _inverse_lanczos(T, row, start + noise / np.linalg.norm(noise, axis=0))
    return sigma


def sigma_min_at(T: Array, z: Array) -> Array:
    """The same at places ``z`` that lie anywhere."""
    sigma = np.empty(z.shape)
    for k in range(0, len(z), _CHUNK):
        sigma[k : k + _CHUNK] = sigma_min(T, z[None, k : k + _CHUNK])[0]
    return sigma


def _by_svd(T: Array, z: Array) -> Array:
    return np.linalg.svd(T - z[:, None, None] * np.eye(len(T)), compute_uv=False)[:, -1]


def _inverse_lanczos(T: Array, z: Array, q: Array) -> tuple[Array, Array]:
    """``sigma_min(T - zI)`` and its left singular vectors: Lanczos on ``((T - z) (T - z)^*)^-1``, a process a column.

    A column leaves when the residual of its Ritz pair is small; the Ritz value is then off by about the square of that.
    """
    q = q / np.linalg.norm(q, axis=0)
    sigma, vectors = np.empty(len(z)), np.empty_like(q)
    # Deep inside the pseudospectrum of a long Jordan block the inverse is beyond the range of floats.
    with np.errstate(over="ignore", invalid="ignore"):
        w = _solve_upper(T, z, _solve_lower(T, z, q))
        lost = ~(np.abs(w).max(axis=0) < _HUGE)
    sigma[lost], vectors[:, lost] = _by_svd(T, z[lost]), q[:, lost]
    active = np.flatnonzero(~lost)
    if not len(active):
        return sigma, vectors
    q, first = q[:, active], w[:, active]
    basis, diagonal, off = [q], [], []
    for step in range(1, _CHECKS[-1] + 1):
        w = first if step == 1 else _solve_upper(T, z[active], _solve_lower(T, z[active], basis[-1]))
        if off:
            w -= off[-1] * basis[-2]
        diagonal.append(np.sum(basis[-1].conj() * w, axis=0).real)
        w -= diagonal[-1] * basis[-1]
        beta = np.linalg.norm(w, axis=0)
        if step in _CHECKS:
            largest, weights = _largest(diagonal, off)
            done = (beta * np.abs(weights[:, -1]) <= _RESIDUAL * largest) | (step == _CHECKS[-1])
            sigma[active[done]] = 1 / np.sqrt(largest[done])
            ritz = [weights[done, k] * basis[k][:, done] for k in range(step)]
            vectors[:, active[done]] = np.sum(ritz, axis=0)
            stay = ~done
            active, w, beta = active[stay], w[:, stay], beta[stay]
            basis = [b[:, stay] for b in basis]
            diagonal, off = [a[stay] for a in diagonal], [b[stay] for b in off]
            if not len(active):
                break
        off.append(beta)
        basis.append(w / np.where(beta > 1e-300, beta, 1))
    return sigma, vectors


def _largest(diagonal: list[Array], off: list[Array]) -> tuple[Array, Array]:
    """Largest eigenvalue of every tridiagonal matrix, and its eigenvector."""
    size = len(diagonal)
    M = np.zeros((len(diagonal[0]), size, size))
    index = np.arange(size)
    M[:, index, index] = np.array(diagonal).T
    if off:
        M[:, index[1:], index[:-1]] = np.array(off[: size - 1]).T
    values, vectors = np.linalg.eigh(M)
    return values[:, -1], vectors[:, :, -1]


def _pivots(T: Array, z: Array) -> Array:
    """Diagonal of ``T - zI`` for every place, kept off zero by one ulp of T."""
    pivots = np.diag(T)[:, None] - z
    tiny = 1e-16 * max(np.abs(T).max(), 1e-300)
    return np.where(np.abs(pivots) < tiny, tiny, pivots)


def _solve_upper(T: Array, z: Array, b: Array) -> Array:
    """``(T - zI)^-1 b``, block by block from the bottom."""
    x, pivots, n = b.copy(), _pivots(T, z), len(T)
    for stop in range(n, 0, -_BLOCK):
        start = max(0, stop - _BLOCK)
        for j in range(stop - 1, start - 1, -1):
            x[j] -= T[j, j + 1 : stop] @ x[j + 1 : stop]
            x[j] /= pivots[j]
        x[:start] -= T[:start, start:stop] @ x[start:stop]
    return x


def _solve_lower(T: Array, z: Array, b: Array) -> Array:
    """``(T - zI)^-* b``, block by block from the top."""
    x, pivots, L, n = b.copy(), _pivots(T, z).conj(), T.conj().T, len(T)
    for start in range(0, n, _BLOCK):
        stop = min(n, start + _BLOCK)
        for j in range(start, stop):
            x[j] -= L[j, start:j] @ x[start:j]
            x[j] /= pivots[j]
        x[stop:] -= L[stop:, start:stop] @ x[start:stop]
    return x
