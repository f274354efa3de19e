"""A diagonalisation in a few lines: what was there, what there is now, how good that is, and what should worry."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from torch import Tensor

if TYPE_CHECKING:
    from wellposed.linalg._diagonalization import Diagonalization

_LARGE = 64  # beyond, the bound takes longer than printing may: d.condition_bound still has it
_BADLY_SCALED = 1e6  # ||A|| over the norm of A in balanced coordinates


def summary(d: Diagonalization) -> str:
    """Before and after, the bound, and warnings in words."""
    what = f"{d.n} x {d.n} matrix" + (f", batch {tuple(d.batch_shape)}" if d.batch_shape else "")
    part = f", half: {d.modes} modes stored" if d.modes < d.n else ""
    start = f" from {d.start}" if d.start else ""
    unfinished = "" if d.converged else " (did not converge)"
    kind = "complex" if d.E.is_complex() else "real"
    rows = [
        f"Diagonalization of a {what} by {d.method}{start}{part}{unfinished}",
        f"  perturbation    ||E|| = {_show(d.norm_E)}, {_show(d.rel)} of ||A||, {kind}",
        f"  eigenvectors    kappa(V) = {_show(d.condition, '.4g')}, of A {_before(d.condition_before)}{_bound(d)}",
        f"  eigenvalues     max Re = {_show(d.abscissa)}, of A {_show(d.abscissa_before)}; smallest gap {_show(d.gap)}",
        f"  check           residual {_show(d.residual, '.1e')}, backward error {_show(d.backward_error)}",
    ]
    return "\n".join(rows + [f"  warning         {text}" for text in _warnings(d)])


def _bound(d: Diagonalization) -> str:
    if d.n > _LARGE or d.batch_shape:
        return ""
    return f"; no perturbation of this size does better than {_show(d.condition_bound)}"


def _warnings(d: Diagonalization) -> list[str]:
    if d.batch_shape:
        return []
    found = []
    if d.abscissa >= 0 > d.abscissa_before:
        found.append("A is stable and A + E is not: pass stable=True, or a smaller perturbation")
    A = d._matrix.cpu().numpy()
    balanced = _balanced_norm(A)
    if balanced > 0 and np.linalg.norm(A, 2) > _BADLY_SCALED * balanced:
        found.append(
            f"A is badly scaled: ||A|| = {np.linalg.norm(A, 2):.1e}, and {balanced:.1e} in balanced coordinates "
            "(scipy.linalg.matrix_balance); relative to the small entries E is large"
        )
    return found


def _balanced_norm(A: np.ndarray) -> float:
    from scipy.linalg import matrix_balance

    return float(np.linalg.norm(matrix_balance(A, permute=False)[0], 2))


def _before(value: float | Tensor) -> str:
    """Beyond 1e12 the digits are rounding, and so may be the number: docs/devdocs/condition.md."""
    if isinstance(value, Tensor):
        return _show(value, ".2g")
    return f"{value:.4g}" if value < 1e8 else "beyond 1e8" if value < 1e12 else "beyond 1e12"


def _show(value: float | Tensor, form: str = ".3g") -> str:
    if isinstance(value, Tensor):
        return f"{value.min().item():{form}} to {value.max().item():{form}}"
    return f"{value:{form}}"
