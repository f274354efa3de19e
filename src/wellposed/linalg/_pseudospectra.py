"""Pseudospectra: where the eigenvalues of nearby matrices can be."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, SupportsIndex

import numpy as np
import torch
from jaxtyping import Bool, Complex128, Float64
from torch import Tensor

from wellposed._checks import number, positive_int
from wellposed.errors import ArgumentError
from wellposed.linalg._criss_cross import pseudospectral_abscissa
from wellposed.linalg._inverse_lanczos import sigma_min, sigma_min_at
from wellposed.linalg._matrix import Array, as_matrix, from_unit, norm2, to_unit, unit_of
from wellposed.linalg._spectrum import schur


@dataclass(frozen=True, eq=False)
class Pseudospectra:
    """``sigma_min(zI - A)`` on a grid: z lies in the eps-pseudospectrum where it is below eps."""

    x: Float64[Tensor, " columns"]
    y: Float64[Tensor, " rows"]
    sigma: Float64[Tensor, "rows columns"]
    computed: Bool[Tensor, "rows columns"]
    """Where ``sigma`` was computed: everywhere, until ``refined`` interpolates between some places."""
    eigenvalues: Complex128[Tensor, " n"]

    T: Complex128[Tensor, "n n"]
    """The Schur form everything was computed from."""

    def abscissa(self, eps: float | int) -> float:
        """Largest real part of the eps-pseudospectrum, to about twelve digits of ``||A|| + eps``; no grid is involved.

        No perturbation of size ``eps`` has an eigenvalue farther right, and some perturbation has one there. Costs a
        few eigenvalue problems of twice the size.
        """
        eps = number(eps, "eps")
        if not 0 <= eps < np.inf:
            raise ArgumentError(f"eps must be finite and not negative, got {eps:g}")
        T = self.T.numpy()
        unit = unit_of(T, eps)
        return unit * pseudospectral_abscissa(to_unit(T, unit), eps / unit)

    def refined(self, level: float | int, *more: float | int) -> Pseudospectra:
        """The same on a grid twice as fine, computed only where the curves ``sigma = level`` pass; may be repeated.

        These are the cells with a level between the values at their corners (and 0, if there is an eigenvalue inside),
        and the cells around them. Elsewhere the logarithm of ``sigma`` is interpolated.
        """
        old, T = self.sigma.numpy(), self.T.numpy()
        x, y = _finer(self.x.numpy()), _finer(self.y.numpy())
        # In logarithms: sigma falls by powers of ten towards an eigenvalue.
        sigma = np.exp(_finer(_finer(np.log(np.maximum(old, 1e-300))).T).T)
        sigma[::2, ::2] = old
        computed = np.zeros(sigma.shape, dtype=bool)
        computed[::2, ::2] = self.computed.numpy()
        new = _near_levels(self, [number(value, "level") for value in (level, *more)]) & ~computed
        z = (x + 1j * y[:, None])[new]
        unit = unit_of(T, x, y)
        sigma[new] = unit * sigma_min_at(to_unit(T, unit), to_unit(z, unit))
        parts = {"x": x, "y": y, "sigma": sigma, "computed": computed | new}
        return dataclasses.replace(self, **{name: torch.from_numpy(part) for name, part in parts.items()})


def pseudospectra(
    A: Any,
    *,
    points: SupportsIndex = 100,
    box: tuple[float, float, float, float] | None = None,
) -> Pseudospectra:
    """Smallest singular value of ``zI - A`` on ``points`` x ``points`` places of ``box = (left, right, bottom, top)``.

    The box defaults to one around the numerical range. One Schur decomposition is made; each place then costs a few
    triangular solves (inverse Lanczos), and where the matrix is real only the upper half plane is computed. For sharp
    level curves at less cost take few points, then ``refined``.

    >>> portrait = pseudospectra([[0.0, 1.0], [0.0, 0.0]], points=41).refined(0.1)
    >>> tuple(portrait.sigma.shape), round(portrait.abscissa(0.1), 6)
    ((81, 81), 0.331662)
    """
    A = as_matrix(A)
    points = positive_int(points, "points")
    ends = np.array(_default_box(A) if box is None else _check_box(box))
    unit = unit_of(A, ends)
    left, right, bottom, top = ends / unit
    T = schur(to_unit(A, unit))[0]
    x, y = np.linspace(left, right, points), np.linspace(bottom, top, points)
    mirrored = np.isrealobj(A) and bottom == -top and points > 1
    half = points // 2 if mirrored else 0
    sigma = sigma_min(T, x + 1j * y[half:, None])  # conj(z) has the same sigma where A is real
    if mirrored:
        sigma = np.concatenate([sigma[::-1][:half], sigma])
    x, y, sigma, T = (torch.from_numpy(part) for part in from_unit(unit, x, y, sigma, T))
    return Pseudospectra(x, y, sigma, torch.ones_like(sigma, dtype=torch.bool), T.diagonal().clone(), T)


def _default_box(A: Array) -> tuple[float, ...]:
    """A little more than the numerical range, which holds every eigenvalue."""
    unit = unit_of(A)
    A = to_unit(A, unit)

    def ends(H: Array) -> tuple[float, float]:
        values = np.linalg.eigvalsh(H)
        return float(values[0]), float(values[-1])

    left, right = ends((A + A.conj().T) / 2)
    bottom, top = ends((A - A.conj().T) / 2j)
    if np.isrealobj(A):
        bottom = -top  # equal but for rounding; exactly so, the lower half need not be computed
    pad = 0.1 * max(right - left, top - bottom, 1e-3 * (norm2(A) or 1.0))
    (box,) = from_unit(unit, np.array([left - pad, right + pad, bottom - pad, top + pad]))
    return tuple(box.tolist())


def _check_box(box: Any) -> tuple[float, ...]:
    """The box of a caller, if it is one."""
    message = f"box must be (left, right, bottom, top) with left < right and bottom < top, got {box!r}"
    try:
        left, right, bottom, top = (number(end, "box") for end in box)
    except (TypeError, ValueError):  # not four things, or not numbers
        raise ArgumentError(message) from None
    if not (np.isfinite([left, right, bottom, top]).all() and left < right and bottom < top):
        raise ArgumentError(message)
    return left, right, bottom, top


def _finer(values: Array) -> Array:
    """Twice as many, with the means of neighbours in between, along the first axis."""
    out = np.empty((2 * len(values) - 1, *values.shape[1:]))
    out[::2] = values
    out[1::2] = values[1:] / 2 + values[:-1] / 2  # halves first: the sum of two floats need not be one
    return out


def _near_levels(grid: Pseudospectra, levels: list[float]) -> Array:
    """The places of the grid twice as fine that belong to cells near a level curve."""
    sigma = grid.sigma.numpy()
    corners = np.stack([sigma[1:, 1:], sigma[1:, :-1], sigma[:-1, 1:], sigma[:-1, :-1]])
    low, high = corners.min(axis=0), corners.max(axis=0)
    low[_cells_of(grid)] = 0  # every part of a pseudospectrum holds an eigenvalue, so none slips through
    crossed = np.any([(low <= level) & (level <= high) for level in levels], axis=0)
    rows, columns = crossed.shape
    near = np.zeros((2 * rows + 5, 2 * columns + 5), dtype=bool)  # two places more on every side
    for i in range(7):  # a cell spans places 0 to 2 of the finer grid, with its neighbours -2 to 4
        for j in range(7):
            near[i : i + 2 * rows : 2, j : j + 2 * columns : 2] |= crossed
    return near[2:-2, 2:-2]


def _cells_of(grid: Pseudospectra) -> tuple[Array, Array]:
    """Row and column of the cell of every eigenvalue inside the grid."""
    ends = ((grid.y, grid.eigenvalues.imag), (grid.x, grid.eigenvalues.real))
    row, column = (torch.searchsorted(t, part.contiguous()).numpy() - 1 for t, part in ends)
    inside = (row >= 0) & (row < len(grid.y) - 1) & (column >= 0) & (column < len(grid.x) - 1)
    return row[inside], column[inside]
