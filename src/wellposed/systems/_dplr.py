"""Systems whose state matrix is diagonal plus low rank, the structure of S4."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, overload

import torch
from jaxtyping import Complex, Complex128, Shaped
from torch import Tensor

from wellposed.errors import ShapeError
from wellposed.systems._base import Method, System, same_dtype
from wellposed.systems._dense import DenseSystem
from wellposed.systems._pairs import real_coordinates
from wellposed.systems._parts import as_tensor
from wellposed.systems._resolvent import Points, Real, Resolvent, Solve, norm, norms


@dataclass(frozen=True)
class LowRankResolvent(Resolvent):
    """Of ``diag(Lambda) - P Q^*``, by the Woodbury identity from that of the diagonal part."""

    Lambda: Complex128[Tensor, " n"]
    P: Complex128[Tensor, "n rank"]
    Q: Complex128[Tensor, "n rank"]
    B: Complex128[Tensor, "n m"]
    C: Complex128[Tensor, "p n"]

    def peaks(self) -> Complex128[Tensor, " n"]:
        """The eigenvalues of the diagonal part, near which spikes stand."""
        return self.Lambda

    def norm_A(self) -> float:
        """The norms of both parts added."""
        return self.Lambda.abs().max().item() + norm(self.P) * norm(self.Q)

    def norm(self, s: Points) -> Real:
        """The norms of both terms of the Woodbury identity added."""
        R, RP, QR, inverse = self._woodbury(s)
        return R.abs().amax(-1) + norms(RP) * norms(inverse) * norms(QR)

    def solvers(self, s: Points) -> tuple[Solve, Solve]:
        """The diagonal part, and a correction of low rank."""
        R, RP, QR, inverse = self._woodbury(s)
        PK, KQ = RP @ inverse, inverse @ QR
        return (
            lambda X: R[..., None] * X - PK @ (QR @ X),
            lambda Y: Y * R[:, None, :] - (Y @ RP) @ KQ,
        )

    def _woodbury(self, s: Points) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        R = 1 / (s[:, None] - self.Lambda)
        RP, QR = R[..., None] * self.P, self.Q.mH * R[:, None, :]
        return R, RP, QR, torch.linalg.inv(torch.eye(self.P.shape[-1], device="cpu") + QR @ self.P)

    def cost(self) -> int:
        """A few vectors a point."""
        return 4 * len(self.Lambda)


class DPLRSystem(System):
    """``A = diag(Lambda) - P Q^*`` with ``P`` and ``Q`` of shape ``(*batch, n, rank)``; ``Q`` is ``P`` if not given.

    The transfer function costs O(n rank^2) a frequency, by the Woodbury identity. A system made without ``Q`` keeps
    that form: ``replace(P=...)`` changes both.

    >>> sys = DPLRSystem([-1.0, -2.0], [[1.0], [1.0]], B=[1.0, 1.0], C=[1.0, 0.0])
    >>> sys
    DPLRSystem(n = 2, SISO, continuous, torch.float64)
    """

    Lambda: Shaped[Tensor, "*batch n"]
    P: Shaped[Tensor, "*batch n rank"]
    Q: Shaped[Tensor, "*batch n rank"]
    _state = ("Lambda", "P", "Q")
    _symmetric: bool
    """Whether ``Q`` was left out, and so is ``P``."""

    def __init__(self, Lambda: Any, P: Any, Q: Any = None, *, B: Any, C: Any, D: Any = None, dt: Any = None) -> None:
        Lambda, P = as_tensor(Lambda, "Lambda"), as_tensor(P, "P")
        symmetric = Q is None
        Q = P if Q is None else as_tensor(Q, "Q")
        if Lambda.ndim < 1:
            raise ShapeError("Lambda must be a vector of eigenvalues, got a single number")
        for name, t in (("P", P), ("Q", Q)):
            if t.ndim != Lambda.ndim + 1 or t.shape[-2] != Lambda.shape[-1] or t.shape[-1] != P.shape[-1]:
                raise ShapeError(
                    f"{name} has shape {tuple(t.shape)}; with Lambda of shape {tuple(Lambda.shape)} "
                    f"it must end in ({Lambda.shape[-1]}, {P.shape[-1] if P.ndim else 'rank'})"
                )
        self._set({"Lambda": (Lambda, 1), "P": (P, 2), "Q": (Q, 2)}, B, C, D, dt, _symmetric=symmetric)

    def _arguments(self) -> dict[str, Any]:
        return super()._arguments() | ({"Q": None} if self._symmetric else {})

    def to_dense(self) -> DenseSystem:
        """The same system with ``A`` written out."""
        Lambda, P, Q = same_dtype(self.Lambda, self.P, self.Q)
        return self._like(DenseSystem(torch.diag_embed(Lambda) - P @ Q.mH, self.B, self.C, self.D, dt=self.dt))

    def poles(self) -> Complex[Tensor, "*batch n"]:
        """The eigenvalues of ``diag(Lambda) - P Q^*`` as the computer finds them; see ``DenseSystem.poles``."""
        return self.to_dense().poles()

    def to_real(self) -> DenseSystem:
        """A real system of the same size, where the conjugate pairs of ``Lambda`` allow it."""
        return real_coordinates(self.to_dense(), self.Lambda)

    @overload
    def discretize(self, dt: Any, method: Literal["bilinear"] = "bilinear") -> DPLRSystem: ...

    @overload
    def discretize(self, dt: Any, method: Literal["zoh"]) -> DenseSystem: ...

    @overload
    def discretize(self, dt: Any, method: Method) -> DPLRSystem | DenseSystem: ...

    def discretize(self, dt: Any, method: Method = "bilinear") -> DPLRSystem | DenseSystem:
        """The discrete system: again diagonal plus low rank for ``"bilinear"``, dense for ``"zoh"``."""
        step = self._check_discretize(dt, method)
        if method == "zoh":
            return self.to_dense().discretize(step, method)
        # (I - h/2 A)^-1 by the Woodbury identity; (I - h/2 A)^-1 (I + h/2 A) = 2 (I - h/2 A)^-1 - I.
        h = step[..., None]
        Lambda, P, Q, B = same_dtype(self.Lambda, self.P, self.Q, self.B)
        Delta = 1 / (1 - h / 2 * Lambda)
        DP, QD = Delta[..., None] * P, Delta.conj()[..., None] * Q
        eye = torch.eye(P.shape[-1], dtype=P.dtype, device=P.device)
        K = torch.linalg.solve(eye + h[..., None] / 2 * (Q.mH @ DP), eye)
        left = h[..., None] / 2 * DP @ K
        B_bar = h[..., None] * (Delta[..., None] * B - left @ (QD.mH @ B))
        return self._like(DPLRSystem(2 * Delta - 1, 2 * left, QD, B=B_bar, C=self.C, D=self.D, dt=step))

    def _cost(self) -> int:
        return self.n * (self.inputs + self.outputs + 2 * self.P.shape[-1])

    def _resolvent(self) -> Resolvent:
        if bool((self.Lambda.real.abs() <= 1e-6 * self.Lambda.abs()).any()):
            # The diagonal part alone has a pole on the axis, where the Woodbury identity would divide by 0.
            return self.to_dense()._resolvent()
        parts = (self.Lambda, self.P, self.Q, self.B, self.C)
        return LowRankResolvent(*(t.to(torch.complex128) for t in parts))

    def _resolvent_form(self, s: Complex[Tensor, " k"]) -> Complex[Tensor, "*batch k p m"]:
        gap = s[:, None] - self.Lambda[..., None, :]
        if bool((gap == 0).any()):  # an eigenvalue of the diagonal part is a removable singularity here
            return self.to_dense()._resolvent_form(s)
        left, R, right = same_dtype(
            torch.cat(same_dtype(self.C, self.Q.mH), -2), 1 / gap, torch.cat(same_dtype(self.B, self.P), -1)
        )
        M = torch.einsum("...pn,...kn,...nm->...kpm", left, R, right)
        p, m = self.outputs, self.inputs
        K = torch.eye(self.P.shape[-1], dtype=M.dtype, device=M.device) + M[..., p:, m:]
        X, info = torch.linalg.solve_ex(K, M[..., p:, :m])
        G = M[..., :p, :m] - M[..., :p, m:] @ X
        return torch.where((info == 0)[..., None, None], G, torch.inf)
