"""Matrices in: anything square becomes float64 or complex128 on the CPU, where LAPACK lives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from wellposed._checks import finite
from wellposed.errors import ArgumentError, ShapeError

# Real or complex; numpy's own stubs deny .real and .imag to an array whose kind is not known.
if TYPE_CHECKING:
    Array: TypeAlias = Any
else:
    Array = np.ndarray


def as_matrices(A: Any, name: str = "A") -> tuple[Array, torch.device]:
    """A finite array of shape ``(*batch, n, n)``, and the device it came from."""
    tensor = A.detach() if isinstance(A, Tensor) else torch.from_numpy(_numbers(A, name))
    if tensor.ndim < 2 or tensor.shape[-1] != tensor.shape[-2]:
        raise ShapeError(f"{name} must be square, got shape {tuple(tensor.shape)}")
    if tensor.numel() == 0:
        raise ShapeError(f"{name} is empty: its shape is {tuple(tensor.shape)}")
    device = tensor.device
    tensor = finite(tensor, name).to("cpu", torch.complex128 if tensor.is_complex() else torch.float64)
    return tensor.resolve_conj().numpy(), device


def _numbers(A: Any, name: str) -> Array:
    try:
        array = np.array(A)
    except ValueError as error:  # rows of different lengths
        raise ShapeError(f"{name} must be square: {error}") from None
    if array.dtype.kind not in "biufc":
        raise ArgumentError(f"{name} must hold numbers, got {array.dtype}")
    return array.astype(complex if array.dtype.kind == "c" else float)


def norm2(M: Array) -> float:
    """Spectral norm."""
    return float(np.linalg.norm(M, 2))
