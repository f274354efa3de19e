"""What a diagonalisation returns: the matrices, and the numbers that tell whether to trust them."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Protocol, TypeVar, runtime_checkable

import torch
from jaxtyping import Complex128, Shaped
from torch import Tensor

from wellposed.errors import ArgumentError, ShapeError
from wellposed.linalg._saved import pack, unpack

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
    converged: bool

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
        return dataclasses.replace(self, Lambda=self.Lambda[keep], V=self.V[:, keep], V_inv=self.V_inv[keep])

    def save(self, path: str | Path) -> Path:
        """Write a safetensors file, complex numbers as pairs of real ones; no pickle is involved."""
        from wellposed._files import write_whole

        return write_whole(Path(path), pack({f.name: getattr(self, f.name) for f in dataclasses.fields(self)}))

    @classmethod
    def load(cls, path: str | Path) -> Diagonalization:
        """Read what ``save`` wrote, and refuse what it would not have written."""
        return cls(**unpack(Path(path)))

    def __str__(self) -> str:
        def show(value: Number, form: str = ".3g") -> str:
            if isinstance(value, Tensor):
                return f"{value.min().item():{form}} to {value.max().item():{form}}"
            return f"{value:{form}}"

        what = f"{self.n} x {self.n} matrix" + (f", batch {tuple(self.batch_shape)}" if self.batch_shape else "")
        part = f", half: {self.modes} modes stored" if self.modes < self.n else ""
        kind = "complex" if self.E.is_complex() else "real"
        rows = [
            f"Diagonalization of a {what} by {self.method}{part}" + ("" if self.converged else " (did not converge)"),
            f"  perturbation    ||E|| = {show(self.norm_E)}, {show(self.rel)} of ||A||, {kind}",
            f"  eigenvectors    kappa(V) = {show(self.condition, '.4g')}, at best {show(self.condition_lower, '.4g')}",
            f"  eigenvalues     max Re = {show(self.abscissa)}, smallest gap {show(self.gap)}",
            f"  check           residual {show(self.residual, '.1e')}, backward error {show(self.backward_error)}",
        ]
        return "\n".join(rows)
