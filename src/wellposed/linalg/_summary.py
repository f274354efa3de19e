"""A diagonalisation in a few lines: what was there, what there is now, how good that is, and what should worry."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from wellposed.linalg._balance import balanced_lengths, to_lengths

if TYPE_CHECKING:
    from wellposed.linalg._diagonalization import Diagonalization

_LARGE = 64  # beyond, the bound takes longer than printing may: d.condition_bound still has it
_STILL_ILL = 1e8  # of kappa(V): half of the digits
_BADLY_SCALED = 1e6  # ||A|| over its norm in balanced coordinates


def summary(d: Diagonalization) -> str:
    """Before and after, the bound, and warnings in words; of a balanced one what holds there, and ``A`` as given."""
    part = f", half: {d.modes} modes stored" if d.modes < d.n else ""
    unfinished = "" if d.converged else " (did not converge)"
    coordinates = "" if d.balanced is None else ", in balanced coordinates"
    rows = [f"Diagonalization of a {_what(d)} by {_how(d)}{part}{coordinates}{unfinished}"]
    rows += _numbers(d if d.balanced is None else d.balanced)
    if d.balanced is not None:
        before = _before(d.condition_before)
        rows.append(f"  A as given      ||E|| = {_size(d)}; kappa(V) {_before(d.condition)}, of A {before}")
    return "\n".join(rows + [f"  warning         {text}" for text in _warnings(d)])


def _what(d: Diagonalization) -> str:
    return f"{d.n} x {d.n} matrix" + (f", batch {tuple(d.batch_shape)}" if d.batch_shape else "")


def _how(d: Diagonalization) -> str:
    """The candidate that won, and its seed."""
    if not d.start:
        return d.method
    return f"{d.method}, {d.start}" if d.start.startswith("seed") else f"{d.method} from {d.start}"


def _size(d: Diagonalization) -> str:
    return f"{_show(d.norm_E)}, {_show(d.rel)} of ||A||"


def _numbers(d: Diagonalization) -> list[str]:
    kind = "complex" if d.E.is_complex() else "real"
    return [
        f"  perturbation    ||E|| = {_size(d)}, {kind}",
        f"  eigenvectors    kappa(V) = {_show(d.condition, '.4g')}, of A {_before(d.condition_before)}{_bound(d)}",
        f"  eigenvalues     max Re = {_show(d.abscissa)}, of A {_show(d.abscissa_before)}; smallest gap {_show(d.gap)}",
        f"  check           residual {_show(d.residual, '.1e')}, backward error {_show(d.backward_error)}",
    ]


def _bound(d: Diagonalization) -> str:
    if d.n > _LARGE or d.batch_shape:
        return ""
    return f"; no perturbation of this size does better than {_show(d.condition_bound)}"


def _warnings(d: Diagonalization) -> list[str]:
    """What should worry the reader: stability that is gone, eigenvectors still bad, a size that means little."""
    if d.batch_shape:
        return _batch_warnings(d)
    found = []
    if d.abscissa >= 0 > d.abscissa_before:
        found.append("A is stable and A + E is not: pass stable=True, or a smaller perturbation")
    if (kappa := (d if d.balanced is None else d.balanced).condition) > _STILL_ILL:
        let_go = ", or stable=False, if that is what holds it back" if d.abscissa < 0 else ""
        found.append(f"kappa(V) is still {kappa:.1e}, beyond 1e8: take a larger perturbation{let_go}")
    A = d._matrix.cpu().numpy()
    size, balanced = np.linalg.norm(A, 2), _balanced_norm(A)
    if d.balanced is None and size > _BADLY_SCALED * balanced > 0:
        found.append(
            f"A is badly scaled, ||A|| = {size:.1e} but {balanced:.1e} in balanced coordinates: beside its small "
            "entries E is large; pass balance=True to work there"
        )
    return found


def _batch_warnings(d: Diagonalization) -> list[str]:
    lost = (torch.as_tensor(d.abscissa) >= 0) & (torch.as_tensor(d.abscissa_before) < 0)
    if not bool(lost.any()):
        return []
    first = ", ".join(str(k) for k in lost.nonzero()[0].tolist())
    return [
        f"{int(lost.sum())} of {lost.numel()} matrices are stable and their A + E is not, the first is A[{first}]: "
        "pass stable=True, or a smaller perturbation"
    ]


def _balanced_norm(A: np.ndarray) -> float:
    return float(np.linalg.norm(to_lengths(A, balanced_lengths(A)), 2))


def _before(value: float | Tensor) -> str:
    """Beyond 1e12 the digits are rounding, and so may be the number: docs/devdocs/condition.md."""
    if isinstance(value, Tensor):
        return f"{_before(value.min().item())} to {_before(value.max().item())}"
    return f"{value:.4g}" if value < 1e8 else "beyond 1e8" if value < 1e12 else "beyond 1e12"


def _show(value: float | Tensor, form: str = ".3g") -> str:
    if isinstance(value, Tensor):
        return f"{value.min().item():{form}} to {value.max().item():{form}}"
    return f"{value:{form}}"
