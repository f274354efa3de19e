"""What ``linf_distance`` asks of a structure: its resolvent, in portions, with a bound for its norm."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import torch
from jaxtyping import Complex128, Float64
from torch import Tensor

Real = Float64[Tensor, " k"]
Points = Complex128[Tensor, " k"]
Solve = Callable[[Tensor], Tensor]


class Resolvent(ABC):
    """``R(s) = (sI - A)^-1`` of one system, in complex128 on the CPU, at many points at once.

    The coordinates are its own choice (a Schur form, eigenvectors), as long as they are orthonormal ones: norms must
    be those of ``A``, and ``B`` and ``C`` are given in the same coordinates.
    """

    B: Complex128[Tensor, "n m"]
    C: Complex128[Tensor, "p n"]

    @abstractmethod
    def peaks(self) -> Complex128[Tensor, " guesses"]:
        """Points near which the response may peak, to look at first. The certificate does not rest on them."""

    @abstractmethod
    def norm_A(self) -> float:
        """An upper bound for ``||A||``."""

    @abstractmethod
    def norm(self, s: Points) -> Real:
        """Upper bounds for ``||R(s)||``. One that is too large makes more cells, one too small a wrong answer."""

    @abstractmethod
    def solvers(self, s: Points) -> tuple[Solve, Solve]:
        """``X -> R X`` for ``X`` of shape ``(k, n, m)``, and ``Y -> Y R`` for ``Y`` of shape ``(k, p, n)``."""

    @abstractmethod
    def cost(self) -> int:
        """About how many numbers one point takes, so that points are taken in portions that fit the memory."""


def norms(M: Tensor) -> Tensor:
    """Largest singular value of each matrix, the length of the vector where it is one; not finite where M is not."""
    if min(M.shape[-2:]) < 2:
        return torch.linalg.vector_norm(M, dim=(-2, -1))
    finite = M.isfinite().all(-1).all(-1)[..., None]
    M = M if bool(finite.all()) else torch.where(finite[..., None], M, 0)  # LAPACK refuses a batch for one entry
    return torch.where(finite, torch.linalg.svdvals(M), torch.inf)[..., 0]


def norm(M: Tensor) -> float:
    """Largest singular value of one matrix."""
    return norms(M).item()
