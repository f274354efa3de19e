"""The matrix exponential, to working precision."""

from __future__ import annotations

import torch
from jaxtyping import Shaped
from torch import Tensor

from wellposed._checks import as_tensor
from wellposed.errors import ShapeError


def matrix_exp(M: Shaped[Tensor, "*batch n n"]) -> Shaped[Tensor, "*batch n n"]:
    """``exp(M)`` to working precision."""
    M = as_tensor(M, "M")
    M = M if M.is_floating_point() or M.is_complex() else M.double()
    if M.ndim < 2 or M.shape[-1] != M.shape[-2]:
        raise ShapeError(f"M must be square, got shape {tuple(M.shape)}")
    # A single matrix of norm about 0.03 (float32: 0.5) loses half its digits, a batch does not: pytorch issue 196592.
    if M.shape[:-2].numel() > 1:
        return torch.linalg.matrix_exp(M)
    return torch.linalg.matrix_exp(M.expand(2, *M.shape))[0]
