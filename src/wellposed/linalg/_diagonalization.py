"""What a diagonalisation returns: the matrices, and the numbers that tell whether to trust them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np
import torch
from jaxtyping import Complex128, Shaped
from torch import Tensor

from wellposed.errors import ArgumentError, ShapeError
from wellposed.linalg._bound import condition_bound
from wellposed.linalg._normality import eigenvector_condition
from wellposed.linalg._saved import pack, unpack
from wellposed.linalg._spectrum import eigenvalues
from wellposed.linalg._summary import summary

Number = float | Tensor
"""A float; for a batch of matrices a tensor of the batch's shape."""


Result = TypeVar("Result", covariant=True)


@runtime_checkable
class _Transformable(Protocol[Result]):
    """What ``transform`` asks of a system; ``linalg`` does not know the systems themselves."""

    def diagonalized(self, d: Diagonalization) -> Result: ...


@dataclasses.dataclass(frozen=True, eq=False)
class Diagonalization:
    """``A + E = V diag(Lambda) V_inv``, and how far that is from ``A``.

    For a real ``A`` and real ``E``, ``Lambda`` lists the eigenvalues above the real axis by imaginary part, then
    their conjugates in the same order, then the real ones; columns of ``V`` and rows of ``V_inv`` are paired alike.
    There are n modes, fewer after ``half``.
    """

    Lambda: Complex128[Tensor, "*batch modes"]
    V: Complex128[Tensor, "*batch n modes"]
    V_inv: Complex128[Tensor, "*batch modes n"]
    E: Shaped[Tensor, "*batch n n"]
    condition: Number
    """Infimum of ``kappa(V D)`` over diagonal D, to 1 %: the condition number of the eigenvector problem.

    ``V`` as returned has it, unless ``columns="unit"`` gave its columns length 1."""
    condition_lower: Number
    """A certified lower bound of that infimum."""
    rel: Number
    """``||E|| / ||A||``, spectral norms."""
    residual: Number
    """``||(A + E) V - V diag(Lambda)|| / ||A||`` with the columns of V at length 1."""
    backward_error: Number
    """``||A - V diag(Lambda) V_inv|| / ||A||``, from the matrices as returned."""
    abscissa: Number
    """Largest real part of an eigenvalue; the diagonalised system is stable where it is negative."""
    gap: Number
    """Smallest distance between two eigenvalues."""
    method: str
    """What found the perturbation: "none", "rank-one", "rank-2", ..., "gaussian" or "optimized"."""
    converged: bool
    A: Shaped[Tensor, "*batch n n"] | None = None
    """The matrix itself; files of earlier versions do not have it."""
    start: str = ""
    """Where the search for E began, where ``method`` does not say it: "gaussian, seed 3"."""
    balanced: Diagonalization | None = None
    """With ``balance=True`` the same in balanced coordinates, where the perturbation was chosen."""

    @property
    def n(self) -> int:
        """Size of the matrix."""
        return self.E.shape[-1]

    @property
    def modes(self) -> int:
        """Number of eigenvalues stored: n, or fewer in a ``half``."""
        return self.Lambda.shape[-1]

    @property
    def batch_shape(self) -> torch.Size:
        """Shape of the batch of matrices; empty for one matrix."""
        return self.Lambda.shape[:-1]

    @property
    def norm_E(self) -> Number:
        """``||E||``, the size of the perturbation."""
        size = torch.linalg.matrix_norm(self.E, ord=2)
        return size if self.batch_shape else size.item()

    @property
    def _matrix(self) -> Tensor:
        """``A``, to rounding where it was not kept."""
        if self.A is not None:
            return self.A
        whole = (self.V * self.Lambda.unsqueeze(-2)) @ self.V_inv
        if self.modes < self.n:
            real = self.Lambda.imag == 0
            whole = 2 * whole.real - ((self.V * self.Lambda)[:, real] @ self.V_inv[real]).real
        return (whole if self.E.is_complex() else whole.real) - self.E

    @cached_property
    def condition_bound(self) -> Number:
        """Proved: no perturbation of the size of ``E``, real or complex, has a ``condition`` below this.

        Computed when first asked for, from a thousand singular value decompositions. The proof, and how far from the
        best known perturbations it is: docs/devdocs/bound.md.
        """
        return self._each(lambda A, E: condition_bound(A, _size_to_beat(self, A, E)))

    @cached_property
    def condition_before(self) -> Number:
        """``eigenvector_condition(A)``: what the perturbation was for."""
        return self._each(lambda A, E: eigenvector_condition(A))

    @cached_property
    def abscissa_before(self) -> Number:
        """Largest real part of an eigenvalue of ``A``."""
        return self._each(lambda A, E: float(eigenvalues(A).real.max()))

    def _each(self, function: Callable[[Any, Any], float]) -> Number:
        A, E = self._matrix.cpu().numpy(), self.E.cpu().numpy()
        if not self.batch_shape:
            return function(A, E)
        values = [function(A[index], E[index]) for index in np.ndindex(*self.batch_shape)]
        return torch.tensor(values, dtype=torch.float64).reshape(self.batch_shape)

    def transform(self, system: _Transformable[Result]) -> Result:
        """The diagonal system that ``A + E`` makes of ``system``: ``system.diagonalized(self)``."""
        if not hasattr(system, "diagonalized"):
            raise ArgumentError(f"transform takes a system of wellposed.systems, got {system!r}")
        return system.diagonalized(self)

    def half(self) -> Diagonalization:
        """One eigenvalue of every conjugate pair, and the real ones: what a layer with real outputs stores.

        ``V`` keeps their columns and ``V_inv`` their rows; ``2 Re`` of the paired modes plus the real ones restore all.
        """
        if self.E.is_complex():
            raise ShapeError("E is complex: the eigenvalues do not come in conjugate pairs")
        if self.batch_shape:
            raise ShapeError(f"half works on one matrix at a time, this is a batch {tuple(self.batch_shape)}")
        keep = self.Lambda.imag >= 0
        modes = {"Lambda": self.Lambda[keep], "V": self.V[:, keep], "V_inv": self.V_inv[keep]}
        return dataclasses.replace(self, **modes, balanced=None if self.balanced is None else self.balanced.half())

    def save(self, path: str | Path) -> Path:
        """Write a safetensors file, complex numbers as pairs of real ones; no pickle is involved."""
        from wellposed._files import write_whole

        return write_whole(Path(path), pack({f.name: getattr(self, f.name) for f in dataclasses.fields(self)}))

    @classmethod
    def load(cls, path: str | Path) -> Diagonalization:
        """Read what ``save`` wrote, and refuse what it would not have written."""
        fields, balanced = unpack(Path(path))
        return cls(**fields, balanced=None if balanced is None else cls(**balanced))

    def __str__(self) -> str:
        return summary(self)


def _size_to_beat(d: Diagonalization, A: Any, E: Any) -> float:
    """``||E||``, and what A is off where it had to be put together again."""
    size = float(np.linalg.norm(E, 2))
    if d.A is not None:
        return size
    lengths = [float(torch.linalg.norm(part)) for part in (d.V, d.V_inv)]
    return size + 1e-13 * len(A) * lengths[0] * lengths[1] * float(np.linalg.norm(A))
