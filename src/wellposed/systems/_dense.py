"""Systems whose state matrix is written out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Complex, Complex128, Shaped
from torch import Tensor

from wellposed.errors import IllConditionedError, NotRealError, ShapeError
from wellposed.linalg import matrix_exp
from wellposed.linalg._spectrum import schur
from wellposed.systems._base import Method, System, check_bilinear, same_dtype
from wellposed.systems._parts import as_tensor, largest_part
from wellposed.systems._resolvent import Points, Real, Resolvent, Solve


@dataclass(frozen=True)
class DenseResolvent(Resolvent):
    """In the coordinates of a Schur form ``A = Z T Z^*``, where every solve is triangular."""

    A: Shaped[Tensor, "n n"]
    T: Complex128[Tensor, "n n"]
    B: Complex128[Tensor, "n m"]
    C: Complex128[Tensor, "p n"]

    @classmethod
    def of(cls, A: Tensor, B: Tensor, C: Tensor) -> DenseResolvent:
        """One Schur decomposition, O(n^3)."""
        T, Z = (torch.from_numpy(M) for M in schur(A.to(torch.complex128).numpy()))
        return cls(A, T, Z.mH @ B.to(torch.complex128), C.to(torch.complex128) @ Z)

    def peaks(self) -> Complex128[Tensor, " n"]:
        """The computed eigenvalues."""
        return self.T.diagonal()

    def norm_A(self) -> float:
        """The Frobenius norm."""
        return torch.linalg.matrix_norm(self.A).item()

    def norm(self, s: Points) -> Real:
        """Exactly, by singular values."""
        return 1 / torch.linalg.svdvals(self._pencil(s))[:, -1]

    def solvers(self, s: Points) -> tuple[Solve, Solve]:
        """By substitution."""
        pencil, solve = self._pencil(s), torch.linalg.solve_triangular
        return lambda X: solve(pencil, X, upper=True), lambda Y: solve(pencil, Y, upper=True, left=False)

    def _pencil(self, s: Points) -> Complex128[Tensor, "k n n"]:
        return s[:, None, None] * torch.eye(len(self.T), device="cpu") - self.T

    def cost(self) -> int:
        """A matrix a point."""
        return self.T.numel()


class DenseSystem(System):
    """``(A, B, C, D)`` with ``A`` of shape ``(*batch, n, n)``, real or complex.

    >>> sys = DenseSystem([[-1.0, 0.0], [-1.0, -2.0]], [1.0, 1.0], [1.0, 0.0])
    >>> complex(sys(0))
    (1+0j)
    """

    A: Shaped[Tensor, "*batch n n"]
    _state = ("A",)

    def __init__(self, A: Any, B: Any, C: Any, D: Any = None, *, dt: Any = None) -> None:
        A = as_tensor(A, "A")
        if A.ndim < 2 or A.shape[-1] != A.shape[-2]:
            raise ShapeError(f"A must be square, got shape {tuple(A.shape)}")
        self._set({"A": (A, 2)}, B, C, D, dt)

    def poles(self) -> Complex[Tensor, "*batch n"]:
        """The eigenvalues of ``A``, as the computer finds them.

        They are the exact eigenvalues of a matrix within roundoff of ``A``. Where ``A`` is far from normal, as every
        HiPPO matrix is, they can lie far from those of ``A`` itself.
        """
        try:
            return torch.linalg.eigvals(self.A)
        except RuntimeError:  # its iteration stalls among entries that are too different: without the negligible ones
            limits = torch.finfo(self.B.real.dtype)
            top = self.A.abs().amax((-2, -1), keepdim=True).clamp(min=limits.tiny)
            return top[..., 0] * torch.linalg.eigvals(torch.where(self.A.abs() < limits.eps**3 * top, 0, self.A / top))

    def to_dense(self) -> DenseSystem:
        """This system."""
        return self

    def conjugate(self, V: Any) -> DenseSystem:
        """The same map from inputs to outputs in the coordinates ``V^-1 x``: ``(V^-1 A V, V^-1 B, C V, D)``."""
        V = as_tensor(V, "V").to(self.B.device)
        if V.shape[-2:] != (self.n, self.n):
            raise ShapeError(f"V must be {self.n} x {self.n} to change the {self.n} states, got {tuple(V.shape)}")
        V, A, B, C = same_dtype(V, self.A, self.B, self.C)
        condition = torch.linalg.cond(V).max().item()
        if not condition < 1 / torch.finfo(V.real.dtype).eps:
            raise IllConditionedError(f"V is singular to working precision: cond(V) = {condition:.1e}")
        AV = A @ V
        both = torch.linalg.solve(V, torch.cat([AV, B.expand(AV.shape[:-1] + B.shape[-1:])], dim=-1))
        D = self.D.expand(AV.shape[:-2] + self.D.shape[-2:])
        return self._like(DenseSystem(both[..., : self.n], both[..., self.n :], C @ V, D, dt=self.dt))

    def discretize(self, dt: Any, method: Method = "bilinear") -> DenseSystem:
        """The discrete system with step ``dt``; ``C`` and ``D`` stay as they are (see docs/devdocs/simulate.md)."""
        step = self._check_discretize(dt, method)
        h = step[..., None, None]
        A, B = same_dtype(self.A, self.B)
        eye = torch.eye(self.n, dtype=A.dtype, device=A.device)
        if method == "bilinear":
            lhs = eye - h / 2 * A
            both, info = torch.linalg.solve_ex(lhs, torch.cat([eye + h / 2 * A, h * B], dim=-1))
            check_bilinear(info == 0, step, "A")
        else:
            # exp of [[A, B], [0, 0]] h holds both exp(A h) and its integral times B, singular A or not.
            block = torch.nn.functional.pad(torch.cat([A, B], dim=-1), (0, 0, 0, self.inputs))
            both = matrix_exp(h * block)[..., : self.n, :]
        return self._like(DenseSystem(both[..., : self.n], both[..., self.n :], self.C, self.D, dt=step))

    def to_real(self) -> DenseSystem:
        """A real system with the same response; a complex one doubles its states.

        Raises where the response is not real, that is where ``G(conj s)`` is not ``conj G(s)``.
        """
        if not (self.A.is_complex() or self.B.is_complex() or self.C.is_complex() or self.D.is_complex()):
            return self
        self._check_real()
        A, B, C = (t.to(t.dtype.to_complex()) for t in (self.A, self.B, self.C))
        A2 = torch.cat([torch.cat([A.real, -A.imag], -1), torch.cat([A.imag, A.real], -1)], -2)
        B2, C2 = torch.cat([B.real, B.imag], -2), torch.cat([C.real, -C.imag], -1)
        return self._like(DenseSystem(A2, B2, C2, self.D.real, dt=self.dt))

    def _check_real(self) -> None:
        """Each system by its own size: a small one beside a large one must not pass for real."""
        for index in np.ndindex(*self.batch_shape):
            (self[index] if self.batch_shape else self)._check_one_real()

    def _check_one_real(self) -> None:
        # A rational function of degree n is real exactly if it is so at enough points; these are generic ones.
        top = max(largest_part(self.A), torch.finfo(self.B.real.dtype).tiny)
        unit = torch.linalg.matrix_norm(self.A * (1 / top)).clamp(min=1)  # squares of large entries are no floats
        scale = top * unit
        angle = torch.arange(1, 2 * self.n + 2, dtype=self.B.real.dtype, device=self.B.device)
        s = scale * torch.polar(1 + angle / len(angle), 2.399963 * angle)  # steps of the golden angle never align
        G, mirrored = self(s), self(s.conj()).conj()
        defect = (G - mirrored).abs().max().item() / 2
        size = G.abs().max().item()
        if not defect <= 1e3 * self.n * torch.finfo(self.B.real.dtype).eps * size:
            raise NotRealError(
                f"the response is not real: its imaginary part reaches {defect:.1e} where |G| reaches {size:.1e}"
            )

    def _cost(self) -> int:
        return self.n**2

    def _resolvent(self) -> DenseResolvent:
        return DenseResolvent.of(self.A, self.B, self.C)

    def _resolvent_form(self, s: Complex[Tensor, " k"]) -> Complex[Tensor, "*batch k p m"]:
        eye = torch.eye(self.n, dtype=s.dtype, device=s.device)
        pencil = s[:, None, None] * eye - self.A[..., None, :, :]
        B = self.B.to(s.dtype)[..., None, :, :].expand(pencil.shape[:-1] + self.B.shape[-1:])
        X, info = torch.linalg.solve_ex(pencil, B)
        G = self.C.to(s.dtype)[..., None, :, :] @ X
        return torch.where((info == 0)[..., None, None], G, torch.inf)
