"""A condition number that no perturbation of a given size beats: docs/devdocs/bound.md proves it.

Two bounds, both from the smallest singular values of ``A - zI``. *Angle*: where ``A + E = X D X^-1`` with normal D, a
left and a right singular vector that are far from parallel force X to be far from unitary. *Area*: the pseudospectrum
of A lies in n discs around the eigenvalues of A + E, of a radius that grows with kappa. The better one counts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from wellposed.linalg._matrix import Array, norm2, svd, to_unit, unit_of

_ROUNDING = 1e-14  # times n: what computed decompositions are off, relative to norms; about 45 ulp
_CELLS = 17  # along each side, around the numerical range; odd, so that the real axis is among the places
_ZOOMS = 2  # how often a grid of as many cells is put where the last one found most
_LARGE = 0.03  # of ||A||: where areas have little to say
_ORDER = 3  # of the expansion that says how far into a cell the smallest singular value stays small
# How the square of a sum is split, and the dual variable in units of the largest singular value: some to look around
# with, many for the last word.
_COARSE = np.logspace(-2.5, 1.5, 13), np.logspace(-8, 2, 31)
_FINE = np.logspace(-3, 2, 81), np.logspace(-9, 2, 241)


# At an eigenvalue, and near tiny singular values, quotients are beyond floats: infinities and NaN prove nothing below.
@np.errstate(over="ignore", divide="ignore", invalid="ignore")
def condition_bound(A: Array, eps: float) -> float:
    """A number that ``kappa(V)`` of ``A + E`` is not below for any E with ``||E|| <= eps``, rounded downwards."""
    unit = unit_of(A, eps)
    A, eps = to_unit(A, unit), eps / unit * (1 + 1e-12)
    if not A.any() or len(A) == 1:
        return 1.0
    by_angle, by_area = bounds(A, eps)
    return max(1.0, max(by_angle, by_area) * (1 - 1e-12))


def bounds(A: Array, eps: float) -> tuple[float, float]:
    """The bound from angles and the one from areas."""
    grid = _Grid.around(A, eps, _box(A), 1.0)  # the first one serves both
    by_angle, by_area, where = grid.by_angle, grid.by_area(eps), grid.best
    angle_box, area_box = grid.around_best(), grid.where_counted(eps)
    # Finer cells add a third at most where eps is large: not worth decompositions where areas say nothing.
    areas = by_area > 1 or eps < _LARGE * norm2(A)
    for _ in range(_ZOOMS):
        grid = _Grid.around(A, eps, angle_box, by_angle)
        by_angle, where, angle_box = grid.by_angle, grid.best, grid.around_best()
        if areas:
            by_area = max(by_area, grid.by_area(eps))
            grid = _Grid.around(A, eps, area_box, np.inf)
            by_area, area_box = max(by_area, grid.by_area(eps)), grid.where_counted(eps)
    if by_angle > 1:
        by_angle = _Place.at(A, where).kappa(eps, by_angle, fine=True)
    return by_angle, max(by_area, 1.0)


@dataclass(frozen=True)
class _Grid:
    """Cells of a box: what the singular vectors at their centres say, and a level at which all of a cell is inside."""

    n: int
    x: Array
    y: Array
    dx: float
    dy: float
    levels: Array
    by_angle: float
    best: complex

    @staticmethod
    def around(A: Array, eps: float, box: tuple[float, float, float, float], known: float) -> _Grid:
        """Decompose at the centre of every cell; angles count where they give more than what is known."""
        left, right, bottom, top = box
        dx, dy = (right - left) / _CELLS, (top - bottom) / _CELLS
        x, y = left + dx * (np.arange(_CELLS) + 0.5), bottom + dy * (np.arange(_CELLS) + 0.5)
        mirrored = np.isrealobj(A) and bottom == -top  # conj(z) says the same as z
        rows = range(_CELLS // 2, _CELLS) if mirrored else range(_CELLS)
        levels, best, where = np.full((_CELLS, _CELLS), np.inf), known, complex(x[_CELLS // 2], y[_CELLS // 2])
        for row in rows:
            for column in range(_CELLS):
                z = complex(x[column], 0.0 if mirrored and row == _CELLS // 2 else y[row])
                place = _Place.at(A, z)
                levels[row, column] = place.level(math.hypot(dx, dy) / 2)
                bound = place.kappa(eps, best)
                best, where = (bound, z) if bound > best else (best, where)
        if mirrored:
            levels[: _CELLS // 2] = levels[: _CELLS // 2 : -1]
        return _Grid(len(A), x, y, dx, dy, levels, best if np.isfinite(best) else 1.0, where)

    def by_area(self, eps: float) -> float:
        """The best bound from as many cells as lie inside, over all levels."""
        return float(self._by_level(eps).max())

    def where_counted(self, eps: float) -> tuple[float, float, float, float]:
        """The box around what is inside at twice the best level."""
        limit = 2 * np.sort(self.levels.ravel())[self._by_level(eps).argmax()]
        inside = self.levels <= limit
        rows, columns = np.flatnonzero(inside.any(axis=1)), np.flatnonzero(inside.any(axis=0))
        return (
            float(self.x[columns[0]] - self.dx),
            float(self.x[columns[-1]] + self.dx),
            float(self.y[rows[0]] - self.dy),
            float(self.y[rows[-1]] + self.dy),
        )

    def around_best(self) -> tuple[float, float, float, float]:
        """A box around the best place for angles, three cells to each side."""
        x, y = self.best.real, self.best.imag
        return x - 3 * self.dx, x + 3 * self.dx, y - 3 * self.dy, y + 3 * self.dy

    def _by_level(self, eps: float) -> Array:
        levels = np.sort(self.levels.ravel())
        area = self.dx * self.dy * np.arange(1, levels.size + 1)
        return np.sqrt(area / (self.n * math.pi)) / (levels + eps) * (1 - 1e-10)


@dataclass(frozen=True)
class _Place:
    """Singular values and vectors of ``A - zI``."""

    U: Array
    s: Array
    Vh: Array

    @staticmethod
    def at(A: Array, z: complex) -> _Place:
        # For real z the decomposition is real, and half the work.
        M = A - (z.real if z.imag == 0 and np.isrealobj(A) else z) * np.eye(len(A))
        return _Place(*svd(M))

    @property
    def rounding(self) -> float:
        """A is within this of the matrix that has exactly these singular values and vectors."""
        return _ROUNDING * len(self.s) * float(self.s[0])

    def level(self, radius: float) -> float:
        """No less than ``sigma_min`` at every place within this radius, by the first terms of a series."""
        u, v = self.U[:, -1].conj(), self.Vh[-1].conj()
        sigma, n = float(self.s[-1]) + self.rounding, len(self.s)
        total, power, length, found = sigma, radius, 1.0, sigma + radius  # the last: sigma_min is 1-Lipschitz
        if n < 2 or self.s[-2] <= self.rounding:
            return found
        for _ in range(_ORDER):
            total += power * abs(complex(u @ v))
            v = self.Vh[:-1].conj().T @ ((self.U[:, :-1].conj().T @ v) / self.s[:-1])
            size = float(np.linalg.norm(v))
            if not np.isfinite(size):
                break
            total += power * self.rounding * size  # (A - z) v is off by that
            length += power * size
            power *= radius
            found = min(found, total + power * size)
        return found * (1 + _ROUNDING * n * length) * (1 + 1e-12)

    def kappa(self, eps: float, known: float, *, fine: bool = False) -> float:
        """The larger of the bounds of ``A - zI`` and of its adjoint, if larger than what is known."""
        # The explicit form of the bound says where it is worth looking; the dual one has up to a few times more.
        explicit = abs(complex(self.Vh[-1] @ self.U[:, -1])) + (self.s[-1] + 2 * eps) / max(self.s[-2], 1e-300)
        if not 4 / explicit > known**2:
            return known
        overlaps = self.Vh @ self.U[:, -1], self.U.conj().T @ self.Vh[-1].conj()
        squares = (np.abs(overlap) ** 2 for overlap in overlaps)
        return max(_largest_kappa(self.s, a, eps + self.rounding, known, fine) for a in squares)


def _largest_kappa(s: Array, a: Array, eps: float, known: float, fine: bool) -> float:
    """``1 / sqrt(t)`` for the smallest t that is proved impossible, by bisection; ``known`` where that is no more.

    Proved is for a given t: no q of the ball with diameter from t w to w has ``|M q| <= s_n + eps + eps |q|``.
    """
    if not _impossible(s, a, eps, 1 / known**2, fine):
        return known
    low, high = 1e-20, 1 / known**2
    for _ in range(40):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if _impossible(s, a, eps, middle, fine) else (middle, high)
        if high < 1.0001 * low:
            break
    return 1 / math.sqrt(high)


def _impossible(s: Array, a: Array, eps: float, t: float, fine: bool) -> bool:
    """Whether weak duality excludes t, for some eta and some multiplier."""
    etas, multipliers = _FINE if fine else _COARSE
    floor = s[-1] + eps
    tau = (1 + 1 / etas) * eps**2
    least = np.maximum(tau - s[-1] ** 2, 0)
    # Multipliers from just above the least allowed to beyond the largest singular value.
    mu = (least[:, None] + multipliers * max(s[0] ** 2, 1e-300))[..., None]
    h = (s**2 - tau[:, None])[:, None, :]
    coefficients = mu * h / (h + mu)
    mu = mu[..., 0]
    value = ((1 + t) / 2) ** 2 * (coefficients @ a) - mu * ((1 - t) / 2) ** 2
    slack = _ROUNDING * len(s) * (np.abs(coefficients).sum(axis=-1) + mu)
    return bool((value - slack > (1 + etas[:, None]) * floor**2 * (1 + 1e-12)).any())


def _box(A: Array) -> tuple[float, float, float, float]:
    """Around the numerical range, with room for a cell."""
    real, imaginary = np.linalg.eigvalsh((A + A.conj().T) / 2), np.linalg.eigvalsh((A - A.conj().T) / 2j)
    pad = 0.02 * max(real[-1] - real[0], imaginary[-1] - imaginary[0], 1e-3 * norm2(A))
    return real[0] - pad, real[-1] + pad, imaginary[0] - pad, imaginary[-1] + pad
