"""Matrices: eigenvalues, where they can go, and what better eigenvectors cost."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Complex128
from torch import Tensor

from wellposed._checks import as_tensor, finite
from wellposed.errors import ShapeError
from wellposed.linalg import Diagonalization, Pseudospectra, pseudospectra, ptd
from wellposed.plot._style import FAINT, LINES, MARKS, S4D, STRONG, axes, named, ramp
from wellposed.systems import System

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_RELS = (0.2, 0.1, 0.05, 0.02, 0.01, 1e-3, 1e-4)


def eigenvalues(what: Any, *, ax: Axes | None = None) -> Axes:
    """Eigenvalues in the complex plane: of a matrix, a diagonalisation or a system, or of several by name.

    A vector is taken as eigenvalues themselves. The line is the imaginary axis: what lies right of it grows.
    """
    found, ax = named(what, ""), axes(ax)
    for (name, one), style in zip(found.items(), MARKS, strict=False):
        values = _values(one)
        ax.plot(values.real.numpy(), values.imag.numpy(), ls="", label=name or None, **style)
    ax.axvline(0, color=FAINT, lw=0.8)
    ax.set(xlabel="real part", ylabel="imaginary part")
    if any(found):
        ax.legend()
    return ax


def _values(one: Any) -> Complex128[Tensor, " n"]:
    if isinstance(one, Diagonalization):
        found = one.Lambda
    elif isinstance(one, System):
        found = one.poles()
    else:
        one = as_tensor(one, "the matrix").detach().cpu()
        if one.ndim not in (1, 2) or (one.ndim == 2 and one.shape[0] != one.shape[1]):
            raise ShapeError(f"a square matrix or a vector of eigenvalues is drawn, not shape {tuple(one.shape)}")
        finite(one, "the matrix")  # LAPACK may end the whole process on NaN
        found = torch.linalg.eigvals(one.to(torch.complex128)) if one.ndim == 2 else one
    return found.detach().cpu().to(torch.complex128).flatten()


def pseudospectrum(
    A: Any, d: Diagonalization | None = None, *, levels: int | Sequence[float | int] = 10, ax: Axes | None = None
) -> Axes:
    """Level curves of ``log10 sigma_min(zI - A)`` with the eigenvalues: of a matrix, or of its ``pseudospectra``.

    With a diagonalisation ``d`` of ``A + E``: its eigenvalues too, and the level ``||E||``, which they cannot leave.
    ``levels`` are powers of ten, or how many to choose.
    """
    grid = A if isinstance(A, Pseudospectra) else portrait(A, 0.0 if d is None else float(d.norm_E))
    norm = None if d is None else float(d.norm_E)
    return draw_pseudospectrum(grid, None if d is None else d.Lambda, norm, levels=levels, ax=axes(ax))


def portrait(A: Any, level: float) -> Pseudospectra:
    """Values to draw: around the numerical range, and farther where the curve of ``level`` leaves that."""
    grid = pseudospectra(A, points=60)
    if level <= 0:
        return grid
    x, y, sigma = grid.x, grid.y, grid.sigma
    # By how much to go beyond each end: the curve is never farther than its level from the numerical range.
    left, right, bottom, top = (
        level * bool(side.min() <= level) for side in (sigma[:, 0], sigma[:, -1], sigma[0], sigma[-1])
    )
    if left or right or bottom or top:
        box = (float(x[0]) - left, float(x[-1]) + right, float(y[0]) - bottom, float(y[-1]) + top)
        grid = pseudospectra(A, points=60, box=box)
    return grid.refined(level)


def draw_pseudospectrum(
    grid: Any, perturbed: Any, norm: float | None, *, levels: int | Sequence[float | int], ax: Axes
) -> Axes:
    """The same from its parts: a grid, the eigenvalues of ``A + E`` and ``||E||``."""
    level = grid.sigma.clamp(min=1e-300).log10()
    levels = levels if isinstance(levels, int) else sorted(levels)
    lines = ax.contour(grid.x, grid.y, level, levels=levels, cmap=ramp(), linewidths=1)
    ax.clabel(lines, fmt="%.3g", fontsize=8)
    own = grid.eigenvalues
    ax.plot(own.real, own.imag, ls="", **MARKS[0], label="eigenvalues of A, as eig finds them")
    if norm is not None:
        ax.plot(perturbed.real, perturbed.imag, ls="", **MARKS[1], label="of A + E")
        if level.min() < math.log10(max(norm, 1e-300)) < level.max():
            ax.contour(grid.x, grid.y, level, levels=[math.log10(norm)], **STRONG)
        # in the legend whether or not the curve passes through this piece of the plane
        ax.plot([], [], color=STRONG["colors"][0], lw=STRONG["linewidths"], ls="--", label=f"level ‖E‖ = {norm:.3g}")
    ax.set(xlabel="real part", ylabel="imaginary part", title=r"$\log_{10}\,\sigma_{\min}(zI - A)$")
    ax.legend(loc="upper left")  # "best" would not look at level curves
    return ax


def tradeoff(matrices: Any, *, rels: Sequence[float] = _RELS, stable: bool = False, ax: Axes | None = None) -> Axes:
    """What better eigenvectors cost: ``kappa(V)`` against ``||E|| / ||A||``, for a matrix or several by name.

    In place of a matrix there may be a list of diagonalisations made elsewhere; otherwise ``ptd`` makes one of each of
    ``rels``, seven from 0.2 to 1e-4 if none are given. A ring marks the default, a tenth.
    """
    found, ax = named(matrices, ""), axes(ax)
    for (name, one), style in zip(found.items(), LINES, strict=False):
        made = list(one) if _made(one) else [ptd(one, rel=rel, stable=stable) for rel in rels]
        made.sort(key=lambda d: d.rel)
        sizes, kappa = [float(d.rel) for d in made], [float(d.condition) for d in made]
        look = style | {"lw": min(style["lw"], 1.6), "alpha": 1.0}
        ax.loglog(sizes, kappa, marker="o", ms=4, label=name or None, **look)
        for size, value in zip(sizes, kappa, strict=True):
            if abs(size - 0.1) < 1e-3:
                ax.plot(size, value, "o", ms=11, mfc="none", mec=S4D, mew=1.5)
    ax.set(xlabel="‖E‖ / ‖A‖", ylabel="κ(V)")
    if any(found):
        ax.legend()
    return ax


def _made(one: Any) -> bool:
    return isinstance(one, Sequence) and bool(one) and all(isinstance(d, Diagonalization) for d in one)
