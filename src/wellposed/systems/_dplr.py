"""Systems whose state matrix is diagonal plus low rank, the structure of S4."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, overload

import torch
from jaxtyping import Bool, Complex, Complex128, Int, Shaped
from torch import Tensor

from wellposed.errors import ShapeError
from wellposed.systems._base import Method, System, check_bilinear, same_dtype
from wellposed.systems._dense import DenseSystem
from wellposed.systems._pairs import real_coordinates
from wellposed.systems._parts import as_tensor, largest_part
from wellposed.systems._resolvent import Points, Real, Resolvent, Solve, norm, norms

_FEW = 1 << 13  # distances that are found faster than a sorted list
_SMALL = 128  # states up to which a dense resolvent costs less than a bound that is far off


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
        inverse, info = torch.linalg.inv_ex(torch.eye(self.P.shape[-1], device="cpu") + QR @ self.P)
        return R, RP, QR, torch.where((info == 0)[:, None, None], inverse, torch.inf)

    def cost(self) -> int:
        """A few vectors a point."""
        return 4 * len(self.Lambda)


class DPLRSystem(System):
    """``A = diag(Lambda) - P Q^*`` with ``P`` and ``Q`` of shape ``(*batch, n, rank)``; ``Q`` is ``P`` if not given.

    The transfer function costs O(n rank^2) a frequency, by the Woodbury identity, which near an entry of ``Lambda``
    would lose its digits: such modes are solved for. A system made without ``Q`` keeps
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
        check_bilinear((h / 2 * Lambda != 1).all(-1), step, "the diagonal part", ", or to_dense() first")
        Delta = 1 / (1 - h / 2 * Lambda)
        DP, QD = Delta[..., None] * P, Delta.conj()[..., None] * Q
        eye = torch.eye(P.shape[-1], dtype=P.dtype, device=P.device)
        inverse = eye + h[..., None] / 2 * (Q.mH @ DP)
        K, info = torch.linalg.solve_ex(inverse, eye.expand_as(inverse))
        check_bilinear(info == 0, step, "A")
        left = h[..., None] / 2 * DP @ K
        B_bar = h[..., None] * (Delta[..., None] * B - left @ (QD.mH @ B))
        return self._like(DPLRSystem(2 * Delta - 1, 2 * left, QD, B=B_bar, C=self.C, D=self.D, dt=step))

    def _cost(self) -> int:
        return self.n * (self.inputs + self.outputs + 2 * self.P.shape[-1])

    def _resolvent(self) -> Resolvent:
        # The diagonal part alone may have poles on the axis or the circle, where the Woodbury identity divides by 0, or
        # so near that its terms cancel. Large systems put up with more of that: HiPPO-LegS has 0.4 n^2 at n states.
        distance = (self.Lambda.abs() - 1 if self.is_discrete else self.Lambda.real).abs()
        cancels = 1e4 if self.n <= _SMALL else 1e7
        if bool((distance <= 1e-6 * self.Lambda.abs() + self._weights() / cancels).any()):
            return self.to_dense()._resolvent()
        parts = (self.Lambda, self.P, self.Q, self.B, self.C)
        return LowRankResolvent(*(t.to(torch.complex128) for t in parts))

    def _resolvent_form(self, s: Complex[Tensor, " k"]) -> Complex[Tensor, "*batch k p m"]:
        gap = s[:, None] - self.Lambda[..., None, :]
        beside = self._beside(s.detach(), gap.detach())
        if not bool(beside.any()):
            return self._woodbury(gap)
        clear = ~beside
        parts = self._woodbury(gap[..., clear, :]), self._bordered(gap[..., beside, :])
        order = torch.cat([clear.nonzero()[:, 0], beside.nonzero()[:, 0]]).argsort()
        return torch.cat(parts, -3)[..., order, :, :]

    def _reach(self) -> Shaped[Tensor, "*batch n"]:
        """Distances from each mode at which its own terms in the Woodbury identity cancel a quarter of their digits."""
        return torch.finfo(self.B.real.dtype).eps ** 0.25 * self._weights()

    def _weights(self) -> Shaped[Tensor, "*batch n"]:
        """How much of each mode the low-rank part couples with itself."""
        P, Q = (torch.linalg.vector_norm(t.detach(), dim=-1) for t in (self.P, self.Q))
        return P * Q

    def _magnitude(self) -> float:
        return max(largest_part(self.Lambda), largest_part(self.P) * largest_part(self.Q))

    def _in_units(self, unit: float) -> DPLRSystem:
        P, Q = (t * unit**-0.5 for t in (self.P, self.Q))
        return self.replace(Lambda=self.Lambda * (1 / unit), P=P, Q=None if self._symmetric else Q)

    def _beside(self, s: Complex[Tensor, " k"], gap: Shaped[Tensor, "*batch k n"]) -> Bool[Tensor, " k"]:
        """Points within reach of a mode, in any system of the batch."""
        reach, count = self._reach(), self.batch_shape.numel()
        if gap.numel() <= _FEW:
            return (gap.abs() <= reach[..., None, :]).any(-1).reshape(count, len(s)).any(0)
        # First by imaginary parts alone, sorted: k log n comparisons, where distances are as dear as the response.
        imag = self.Lambda.detach().imag if self.Lambda.is_complex() else torch.zeros_like(reach)
        start, order = (imag - reach).sort(-1)
        end = (imag + reach).gather(-1, order).cummax(-1).values
        x = s.imag.expand(*self.batch_shape, -1).contiguous()
        place = torch.searchsorted(start, x, right=True) - 1
        beside = ((place >= 0) & (x <= end.gather(-1, place.clamp(min=0)))).reshape(count, len(s)).any(0)
        left = beside.nonzero()[:, 0]
        near = (gap[..., left, :].abs() <= reach[..., None, :]).any(-1).reshape(count, len(left)).any(0)
        return beside.index_put((left,), near)

    def _woodbury(self, gap: Shaped[Tensor, "*batch k n"]) -> Complex[Tensor, "*batch k p m"]:
        M = self._products(1 / gap)
        p, m = self.outputs, self.inputs
        K = torch.eye(self.P.shape[-1], dtype=M.dtype, device=M.device) + M[..., p:, m:]
        X, info = torch.linalg.solve_ex(K, M[..., p:, :m])
        G = M[..., :p, :m] - M[..., :p, m:] @ X
        return torch.where((info == 0)[..., None, None], G, torch.inf)

    def _products(self, R: Shaped[Tensor, "*batch k n"]) -> Complex[Tensor, "*batch k p_rank m_rank"]:
        """``[C; Q^*] diag(R) [B, P]`` at every point."""
        left, R, right = same_dtype(
            torch.cat(same_dtype(self.C, self.Q.mH), -2), R, torch.cat(same_dtype(self.B, self.P), -1)
        )
        return torch.einsum("...pn,...kn,...nm->...kpm", left, R, right)

    def _bordered(self, gap: Shaped[Tensor, "*batch k n"]) -> Complex[Tensor, "*batch k p m"]:
        """The same where some modes are near ``s``, or at it: those are not divided by, but solved for.

        With ``y = Q^* x`` the system ``(sI - Lambda) x + P y = B`` is diagonal. Eliminating the modes that are far
        leaves one small system for the near ones and ``y``, in which nothing cancels.
        """
        near = gap.detach().abs() <= self._reach()[..., None, :]
        count = int(near.sum(-1).max())
        index = near.to(gap.real.dtype).topk(count, -1).indices  # where a point has fewer, others join them
        near = torch.zeros_like(near).scatter(-1, index, True)
        M = self._products(torch.where(near, 0, 1 / torch.where(near, 1, gap)))
        p, m = self.outputs, self.inputs
        B, C, P, Q = (
            t.to(M.dtype)[..., None, :, :].expand(*gap.shape, t.shape[-1]).gather(-2, _spread(index, t.shape[-1]))
            for t in (self.B, self.C.mT, self.P, self.Q)
        )
        eye = torch.eye(self.P.shape[-1], dtype=M.dtype, device=M.device)
        top = torch.cat([torch.diag_embed(gap.gather(-1, index).to(M.dtype)), P], -1)
        K = torch.cat([top, torch.cat([Q.mH, -eye - M[..., p:, m:]], -1)], -2)
        X, info = torch.linalg.solve_ex(K, torch.cat([B, -M[..., p:, :m]], -2))
        G = C.mT @ X[..., :count, :] + M[..., :p, :m] - M[..., :p, m:] @ X[..., count:, :]
        return torch.where((info == 0)[..., None, None], G, torch.inf)


def _spread(index: Int[Tensor, "*batch k count"], width: int) -> Int[Tensor, "*batch k count width"]:
    return index[..., None].expand(*index.shape, width)
