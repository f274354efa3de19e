"""A system in the coordinates of eigenvectors, its own or those of a matrix nearby."""

from __future__ import annotations

import torch
from torch import Tensor

from wellposed.errors import ArgumentError, NotRealError, ShapeError
from wellposed.linalg import Diagonalization
from wellposed.systems._base import System
from wellposed.systems._diagonal import DiagonalSystem
from wellposed.systems._parts import as_tensor

_GAP = 1e-6  # of ||A||: a system kept in float32 is 1e-7 away from the float64 matrix it was made of


def in_eigenvectors(system: System, Lambda: Tensor, V: Tensor, V_inv: Tensor) -> DiagonalSystem:
    """``(Lambda, V_inv B, C V, D)``, stored as conjugate pairs where the system is real."""
    dtype = system.B.real.dtype.to_complex()
    given = {"Lambda": Lambda, "V": V, "V_inv": V_inv}
    Lambda, V, V_inv = (as_tensor(t, name).to(system.B.device, dtype) for name, t in given.items())
    full = DiagonalSystem(Lambda, V_inv @ system.B.to(dtype), system.C.to(dtype) @ V, system.D, dt=system.dt)
    real = not any(t.is_complex() for t in (system.B, system.C, system.D)) and not system.batch_shape
    try:
        return system._like(full.to_pairs() if real else full)
    except NotRealError:  # a complex perturbation
        return system._like(full)


def diagonalized(system: System, d: Diagonalization) -> DiagonalSystem:
    """The diagonal system that ``A + E`` makes of ``system``, after a check that ``d`` is of its ``A``."""
    if not isinstance(d, Diagonalization):
        raise ArgumentError(f"diagonalized takes what ptd returns, got {type(d).__name__}")
    if d.modes < d.n:
        raise ShapeError(f"this is a half, with {d.modes} of {d.n} modes: transform before taking half()")
    A = system.to_dense().A
    if A.shape[-1] != d.n:
        raise ShapeError(f"this diagonalisation has n = {d.n}, the system {A.shape[-1]} states")
    Lambda, V, V_inv = (t.to(A.device) for t in (d.Lambda, d.V, d.V_inv))
    gap = _relative((V * Lambda[..., None, :]) @ V_inv - d.E.to(A.device), A)
    if not gap <= _GAP:
        raise ShapeError(
            f"the state matrix of the system is not the one diagonalised: they differ by {gap:.1e} "
            "of its norm; pass the system in the coordinates of A (for S4, form='dense')"
        )
    return in_eigenvectors(system, Lambda, V, V_inv)


def _relative(other: Tensor, A: Tensor) -> float:
    """``||other - A|| / ||A||``, the largest of a batch; 0 where both are zero."""
    # Divided by the largest entry first: the squares in a norm would underflow for small matrices, and pass for equal.
    size = torch.maximum(A.abs(), other.abs()).amax((-2, -1), keepdim=True)
    size = torch.where(size == 0, 1.0, size)
    gap, norm = (torch.linalg.matrix_norm(M / size) for M in (other - A, A))
    return (gap / norm.clamp(min=1e-300)).max().item()
