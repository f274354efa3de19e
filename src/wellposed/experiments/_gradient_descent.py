"""The paper's way to a perturbation: gradient descent on the condition number, by Adam through ``eig``."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch

from wellposed.linalg import eigenvector_condition

_STEPS = 200
_RATE = 0.02  # of the largest entry at the start


class Descended(NamedTuple):
    """What is measured of a perturbation."""

    condition: float
    abscissa: float


def by_adam(A: Any, eps: float, seed: int) -> Descended:
    """From a Gaussian matrix, ``log kappa`` of unit eigenvectors at fixed ``||E|| = eps``; the best of all steps."""
    M = torch.from_numpy(np.asarray(A))
    E = torch.randn(M.shape, dtype=M.dtype, generator=torch.Generator().manual_seed(seed)).requires_grad_()
    optimizer = torch.optim.Adam([E], lr=_RATE * float(E.detach().abs().max()))
    best, least = E.detach().clone(), float("inf")
    for _ in range(_STEPS):
        scaled = eps / torch.linalg.matrix_norm(E, 2) * E
        loss = torch.linalg.cond(torch.linalg.eig(M + scaled)[1]).log()
        if not torch.isfinite(loss):
            break
        if loss.item() < least:
            best, least = scaled.detach().clone(), loss.item()
        optimizer.zero_grad()
        loss.backward()
        if E.grad is None or not bool(torch.isfinite(torch.view_as_real(E.grad) if E.is_complex() else E.grad).all()):
            break
        optimizer.step()
    near = (M + best).numpy()
    return Descended(eigenvector_condition(near), float(np.linalg.eigvals(near).real.max()))
