"""Pseudospectra: where the eigenvalues of nearby matrices can be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, SupportsIndex

import numpy as np
import torch
from jaxtyping import Complex128, Float64
from torch import Tensor

from wellposed._checks import positive_int
from wellposed.errors import ArgumentError, ShapeError
from wellposed.linalg._eigen import eigen
from wellposed.linalg._matrix import Array, as_matrices, norm2


@dataclass(frozen=True, eq=False)
class Pseudospectra:
    """``sigma_min(zI - A)`` on a grid: z lies in the eps-pseudospectrum where it is below eps."""

    x: Float64[Tensor, " columns"]
    y: Float64[Tensor, " rows"]
    sigma: Float64[Tensor, "rows columns"]
    eigenvalues: Complex128[Tensor, " n"]

    T: Complex128[Tensor, "n n"]
    """The Schur form everything was computed from."""

    def abscissa(self, eps: float) -> float:
        """Largest real part of the eps-pseudospectrum: from the grid, then refined off it to eight digits.

        NaN where no place of the grid lies in it; a part of it that slips through the grid is not seen.
        """
        from scipy.optimize import minimize_scalar

        inside = self.sigma <= eps
        if not bool(inside.any()):
            return float("nan")
        step, rise = (((t[-1] - t[0]) / max(1, len(t) - 1)).item() for t in (self.x, self.y))
        ends = torch.where(inside, self.x, -torch.inf).amax(dim=1)
        T, eye = self.T.numpy(), np.eye(len(self.T))

        def sigma(x: float, y: float) -> float:
            return float(np.linalg.svd(T - complex(x, y) * eye, compute_uv=False)[-1])

        def boundary(y: float, near: float) -> float:
            far = near + step
            while sigma(far, y) <= eps:
                near, far = far, far + step
            while far - near > 1e-10 * max(abs(far), step):
                middle = (near + far) / 2
                near, far = (middle, far) if sigma(middle, y) <= eps else (near, middle)
            return near

        rows = [
            (boundary(y, end), y) for y, end in zip(self.y.tolist(), ends.tolist(), strict=True) if end == ends.max()
        ]
        best, y = max(rows)
        near = best - step
        found: Any = minimize_scalar(
            lambda y: -boundary(y, near) if sigma(near, y) <= eps else -near,
            bounds=(y - rise, y + rise),
            method="bounded",
            options={"xatol": 1e-6 * rise},
        )
        return max(best, float(-found.fun))


def pseudospectra(
    A: Any,
    *,
    points: SupportsIndex = 100,
    box: tuple[float, float, float, float] | None = None,
) -> Pseudospectra:
    """Smallest singular value of ``zI - A`` on ``points`` x ``points`` places of ``box = (left, right, bottom, top)``.

    The box defaults to one around the numerical range. One Schur decomposition is made; each place then costs a few
    triangular solves (inverse Lanczos), and where the matrix is real only the upper half plane is computed.
    """
    arrays, _ = as_matrices(A)
    if arrays.ndim > 2:
        raise ShapeError(f"one matrix at a time, got a batch {arrays.shape[:-2]}")
    points = positive_int(points, "points")
    left, right, bottom, top = _box(arrays) if box is None else box
    if not (left < right and bottom < top):
        raise ArgumentError(f"box must be (left, right, bottom, top) with left < right and bottom < top, got {box}")
    T = _schur(arrays)
    x, y = np.linspace(left, right, points), np.linspace(bottom, top, points)
    mirrored = np.isrealobj(arrays) and bottom == -top and points > 1
    rows = y[y >= 0] if mirrored else y
    z = x + 1j * rows[:, None]
    sigma = _by_svd(T, z) if len(T) <= _SMALL else _sigma_min(T, z)
    if mirrored:
        sigma = np.concatenate([sigma[::-1][: points - len(rows)], sigma])
    return Pseudospectra(*(torch.from_numpy(np.array(a)) for a in (x, y, sigma, np.diag(T), T)))


def _schur(A: Array) -> Array:
    from scipy.linalg import schur

    return schur(A, output="complex")[0]


def _box(A: Array) -> tuple[float, float, float, float]:
    """A little more than the numerical range, which holds every eigenvalue."""

    def ends(H: Array) -> tuple[float, float]:
        values = np.linalg.eigvalsh(H)
        return float(values[0]), float(values[-1])

    left, right = ends((A + A.conj().T) / 2)
    bottom, top = ends((A - A.conj().T) / 2j)
    pad = 0.1 * max(right - left, top - bottom, 1e-3 * norm2(A), 1e-12)
    return left - pad, right + pad, bottom - pad, top + pad


_SMALL = 32  # up to here a singular value decomposition at every place is as fast
_BLOCK = 32
_LANCZOS = 100
_FIRST_CHECK = 6
_RESIDUAL = 1e-5
_HUGE = 1e140  # its square is still a float


def _by_svd(T: Array, z: Array) -> Array:
    eye = np.eye(len(T))
    return np.array([np.linalg.svd(T - row[:, None, None] * eye, compute_uv=False)[:, -1] for row in z])


def _sigma_min(T: Array, z: Array) -> Array:
    """Smallest singular value of ``T - zI`` for triangular T, row by row of the grid, by inverse Lanczos.

    Each row starts from the singular vectors of the last, with as much noise, so that none is out of reach.
    """
    rng = np.random.default_rng(0)
    start = np.zeros((len(T), z.shape[1]), dtype=complex)
    sigma = np.empty(z.shape)
    for k, row in enumerate(z):
        noise = rng.standard_normal(start.shape) + 1j * rng.standard_normal(start.shape)
        sigma[k], start = _inverse_lanczos(T, row, start + noise / np.linalg.norm(noise, axis=0))
    return sigma


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
    sigma[lost], vectors[:, lost] = _by_svd(T, z[None, lost])[0], q[:, lost]
    active = np.flatnonzero(~lost)
    if not len(active):
        return sigma, vectors
    q, first = q[:, active], w[:, active]
    basis, diagonal, off = [q], [], []
    for step in range(1, _LANCZOS + 1):
        w = first if step == 1 else _solve_upper(T, z[active], _solve_lower(T, z[active], basis[-1]))
        if off:
            w -= off[-1] * basis[-2]
        diagonal.append(np.sum(basis[-1].conj() * w, axis=0).real)
        w -= diagonal[-1] * basis[-1]
        beta = np.linalg.norm(w, axis=0)
        if step >= _FIRST_CHECK and step % 2 == 0:
            largest, weights = _largest(diagonal, off)
            done = (beta * np.abs(weights[:, -1]) <= _RESIDUAL * largest) | (step >= _LANCZOS - 1)
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


def departure_from_normality(A: Any) -> float:
    """Henrici's departure: the Frobenius norm of the strictly upper part of the Schur form; 0 for a normal matrix."""
    arrays, _ = as_matrices(A)
    if arrays.ndim > 2:
        raise ShapeError(f"one matrix at a time, got a batch {arrays.shape[:-2]}")
    T = _schur(arrays)
    return float(np.linalg.norm(np.triu(T, 1)))


def eigenvector_condition(A: Any) -> float:
    """Condition number of the eigenvectors of ``A``, the infimum over their lengths to 1 %; infinite if defective."""
    arrays, _ = as_matrices(A)
    if arrays.ndim > 2:
        raise ShapeError(f"one matrix at a time, got a batch {arrays.shape[:-2]}")
    result = eigen(arrays, np.zeros_like(arrays))
    return result.scaling.condition if np.isfinite(result.balanced) else float("inf")
