"""What ``linf_distance`` asks of a structure: its resolvent, in portions, with a bound for its norm."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

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


@dataclass(frozen=True)
class InUnits(Resolvent):
    """The same system with time counted in other units: ``A / unit`` and ``B / unit`` at ``s / unit``."""

    inner: Resolvent
    unit: float
    B: Complex128[Tensor, "n m"]
    C: Complex128[Tensor, "p n"]

    @classmethod
    def of(cls, inner: Resolvent, unit: float) -> InUnits:
        """Of any structure."""
        return cls(inner, unit, inner.B / unit, inner.C)

    def peaks(self) -> Complex128[Tensor, " guesses"]:
        """Those of the system itself."""
        return self.inner.peaks() / self.unit

    def norm_A(self) -> float:
        """``||A|| / unit``."""
        return self.inner.norm_A() / self.unit

    def norm(self, s: Points) -> Real:
        """``unit ||R||``."""
        return self.unit * self.inner.norm(self.unit * s)

    def solvers(self, s: Points) -> tuple[Solve, Solve]:
        """``unit R``."""
        right, left = self.inner.solvers(self.unit * s)
        return lambda X: self.unit * right(X), lambda Y: self.unit * left(Y)

    def cost(self) -> int:
        """As much as the system itself."""
        return self.inner.cost()


def norms(M: Tensor) -> Tensor:
    """Largest singular value of each matrix; the length of the vector where it is one."""
    if min(M.shape[-2:]) < 2:
        return torch.linalg.vector_norm(M, dim=(-2, -1))
    return torch.linalg.svdvals(M)[..., 0]


def norm(M: Tensor) -> float:
    """Largest singular value of one matrix."""
    return norms(M).item()
