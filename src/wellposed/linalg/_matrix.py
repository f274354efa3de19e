"""Matrices in: anything square becomes float64 or complex128 on the CPU, where LAPACK lives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import torch

from wellposed._checks import as_tensor, finite
from wellposed.errors import ArgumentError, NotFiniteError, ShapeError

# Real or complex; numpy's own stubs deny .real and .imag to an array whose kind is not known.
if TYPE_CHECKING:
    Array: TypeAlias = Any
else:
    Array = np.ndarray


def as_matrices(A: Any, name: str = "A") -> tuple[Array, torch.device]:
    """A finite array of shape ``(*batch, n, n)``, and the device it came from."""
    if np.ma.is_masked(A):
        count = np.ma.count_masked(A)
        raise ArgumentError(f"{name} has {count} masked entries, which have no value: fill them, {name}.filled(0.0)")
    tensor = as_tensor(A, name).detach()
    if tensor.ndim < 2 or tensor.shape[-1] != tensor.shape[-2]:
        raise ShapeError(f"{name} must be square, got shape {tuple(tensor.shape)}")
    if tensor.numel() == 0:
        raise ShapeError(f"{name} is empty: its shape is {tuple(tensor.shape)}")
    device = tensor.device
    tensor = finite(tensor.to("cpu", torch.complex128 if tensor.is_complex() else torch.float64), name)
    return tensor.resolve_conj().resolve_neg().numpy(), device


def as_matrix(A: Any) -> Array:
    """A finite array of shape ``(n, n)``: one matrix."""
    arrays, _ = as_matrices(A)
    if arrays.ndim > 2:
        raise ShapeError(f"one matrix at a time, got a batch {arrays.shape[:-2]}")
    return arrays


def unit_of(*arrays: Array | float) -> float:
    """The power of two below the largest entry, 1 if all are zero: dividing by it rounds nothing.

    The entries of what is left are at most 2, so that neither squares nor norms overflow or vanish.
    """
    top = max(float(np.abs([np.real(a), np.imag(a)]).max()) for a in arrays)
    return float(np.ldexp(1.0, int(np.frexp(top)[1]) - 1)) if top > 0 else 1.0


def to_unit(A: Array, unit: float) -> Array:
    """``A / unit``, for a unit from ``unit_of``."""
    return (_parts(A) / unit).view(A.dtype)


def from_unit(unit: float, *arrays: Array) -> list[Array]:
    """``unit`` times every array: the way back from ``to_unit``, refused where floats cannot hold the result."""
    with np.errstate(over="ignore"):
        found = [(unit * _parts(array)).view(array.dtype) for array in arrays]
    if not all(np.isfinite(array).all() for array in found):
        raise NotFiniteError("the results are beyond the largest float, 1.8e308: divide A by 2**40 first")
    for new, old in zip(found, arrays, strict=True):
        if np.abs(to_unit(new, unit) - old).max() > 1e-12 * np.abs(old).max():
            raise ArgumentError("the results vanish below the smallest float, 2.2e-308: multiply A by 2**80 first")
    return found


def _parts(A: Array) -> Array:
    """Real and imaginary parts side by side: numpy's complex quotients overflow where these do not."""
    return np.ascontiguousarray(A).view(float)


def norm2(M: Array) -> float:
    """Spectral norm."""
    return float(singular_values(M)[0])


def singular_values(M: Array) -> Array:
    """Largest first; NaN where M is not finite."""
    try:
        return np.linalg.svd(_finite(M), compute_uv=False)
    except np.linalg.LinAlgError:
        return _slow_svd(M, vectors=False)


def svd(M: Array) -> tuple[Array, Array, Array]:
    """``U``, singular values and ``V^*`` of a square matrix; NaN where it is not finite."""
    try:
        return np.linalg.svd(_finite(M))
    except np.linalg.LinAlgError:
        return _slow_svd(M, vectors=True)


def _finite(M: Array) -> Array:
    """M, or an error: given infinities LAPACK iterates for ever, or complains on standard output."""
    if not np.isfinite(M).all():
        raise np.linalg.LinAlgError
    return M


def _slow_svd(M: Array, *, vectors: bool) -> Any:
    """By QR iteration, which converges where dividing and conquering does not; NaN where nothing can."""
    from scipy.linalg import svd

    try:
        return svd(M, compute_uv=vectors, lapack_driver="gesvd", check_finite=True)
    except (np.linalg.LinAlgError, ValueError):
        nothing = np.full(len(M), np.nan)
        return (np.full_like(M, np.nan), nothing, np.full_like(M, np.nan)) if vectors else nothing
