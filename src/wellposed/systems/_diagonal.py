"""Systems whose state matrix is diagonal, the structure of S4D and S5."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Complex, Complex128, Shaped
from torch import Tensor

from wellposed.errors import NotRealError, ShapeError
from wellposed.kernels import as_float64
from wellposed.kernels.discretize import discretize_any
from wellposed.systems._base import Method, System, check_bilinear, same_dtype
from wellposed.systems._dense import DenseSystem
from wellposed.systems._pairs import match_pairs, real_coordinates, real_modes
from wellposed.systems._parts import as_tensor
from wellposed.systems._resolvent import Points, Real, Resolvent, Solve


@dataclass(frozen=True)
class DiagonalResolvent(Resolvent):
    """Of a diagonal matrix: everything mode by mode, and exact."""

    Lambda: Complex128[Tensor, " n"]
    B: Complex128[Tensor, "n m"]
    C: Complex128[Tensor, "p n"]

    def peaks(self) -> Complex128[Tensor, " n"]:
        """The eigenvalues."""
        return self.Lambda

    def norm_A(self) -> float:
        """The largest eigenvalue."""
        return self.Lambda.abs().max().item()

    def norm(self, s: Points) -> Real:
        """One over the distance to the nearest eigenvalue."""
        return self._modes(s).abs().amax(-1)

    def solvers(self, s: Points) -> tuple[Solve, Solve]:
        """Mode by mode."""
        R = self._modes(s)
        return lambda X: R[..., None] * X, lambda Y: Y * R[:, None, :]

    def _modes(self, s: Points) -> Complex128[Tensor, "k n"]:
        return 1 / (s[:, None] - self.Lambda)

    def cost(self) -> int:
        """A few vectors a point."""
        return 4 * len(self.Lambda)


class DiagonalSystem(System):
    """``A = diag(Lambda)`` with ``Lambda`` of shape ``(*batch, n)``.

    With ``pairs=True`` every stored mode stands for itself and its complex conjugate, so that half the modes make a
    real system whose output is ``2 Re(C x)``. A real eigenvalue has no partner and counts once.

    >>> sys = DiagonalSystem([-0.5 + 3j], [1.0], [0.5], pairs=True)
    >>> sys.poles().tolist()
    [(-0.5+3j), (-0.5-3j)]
    """

    Lambda: Shaped[Tensor, "*batch n"]
    pairs: bool
    _weight: Shaped[Tensor, "*batch n"]
    """How often a stored mode counts in the output: 2 for one of a conjugate pair, otherwise 1."""
    _state = ("Lambda",)

    def __init__(self, Lambda: Any, B: Any, C: Any, D: Any = None, *, dt: Any = None, pairs: bool = False) -> None:
        Lambda = as_tensor(Lambda, "Lambda")
        if Lambda.ndim < 1:
            raise ShapeError("Lambda must be a vector of eigenvalues, got a single number")
        paired = Lambda.imag != 0 if pairs and Lambda.is_complex() else torch.zeros_like(Lambda, dtype=torch.bool)
        self._set({"Lambda": (Lambda, 1), "_weight": (1.0 + paired, 1)}, B, C, D, dt, pairs=pairs)
        if pairs and self.D.is_complex():
            raise NotRealError("a system stored as conjugate pairs is real: D may not be complex")

    def replace(self, **parts: Any) -> DiagonalSystem:
        """Another system with some parts exchanged; see ``System.replace``.

        Where ``Lambda`` stays, so do its pairs. A new ``Lambda`` is read as the constructor reads it: real entries have
        no partner.
        """
        new = super().replace(**parts)
        return new if "Lambda" in parts else new._weighted(self._weight)

    def _arguments(self) -> dict[str, Any]:
        return super()._arguments() | {"pairs": self.pairs}

    def _map(self, f: Callable[[Tensor], Tensor], dt: Tensor | None) -> DiagonalSystem:
        return super()._map(f, dt)._weighted(f(self._weight))

    def _weighted(self, weight: Tensor) -> DiagonalSystem:
        """The same modes, counted as another system counts them.

        A pair stays a pair even where its eigenvalue has become real, by aliasing or underflow in discrete time.
        """
        return self._marked(_weight=weight.to(self.B.device, self.B.real.dtype).expand(self.Lambda.shape))

    @property
    def n(self) -> int:
        """Number of states, both halves of every pair counted."""
        counts = self._weight.sum(-1).reshape(-1)
        if bool((counts != counts[0]).any()):
            raise ShapeError(f"the systems of this batch have {counts.min():.0f} to {counts.max():.0f} states")
        return int(counts[0])

    @property
    def n_stored(self) -> int:
        """Length of the state vector that ``simulate`` takes and returns."""
        return self.Lambda.shape[-1]

    def poles(self) -> Complex[Tensor, "*batch n"]:
        """``Lambda``, and after it the conjugates where only one of each pair is stored."""
        Lambda = self.Lambda.to(self.Lambda.dtype.to_complex())
        return (
            torch.cat([Lambda, Lambda[..., self._partnered()].conj()], dim=-1).resolve_conj() if self.pairs else Lambda
        )

    def _partnered(self) -> Bool[Tensor, " stored"]:
        """Which stored modes stand for a pair, the same ones in every system of a batch."""
        double = (self._weight == 2).reshape(-1, self.n_stored)
        if bool((double != double[:1]).any()):
            raise ShapeError(
                "the systems of this batch have their real eigenvalues in different places: take one, sys[i]"
            )
        return double[0]

    def to_full(self) -> DiagonalSystem:
        """The same system with every mode stored."""
        if not self.pairs:
            return self
        double = self._partnered()
        Lambda = torch.cat([self.Lambda, self.Lambda[..., double].conj()], dim=-1).resolve_conj()
        B, C = self._real_lone_modes(~double)
        B = torch.cat([B, B[..., double, :].conj()], dim=-2).resolve_conj()
        C = torch.cat([C, C[..., double].conj()], dim=-1).resolve_conj()
        return self._like(DiagonalSystem(Lambda, B, C, self.D, dt=self.dt))

    def _real_lone_modes(self, lone: Bool[Tensor, " stored"]) -> tuple[Tensor, Tensor]:
        """``B`` and ``C`` with real entries for the modes without a partner, of which only ``Re(C x)`` is read."""
        if not bool(lone.any()) or not (self.B.is_complex() or self.C.is_complex()):
            return self.B, self.C
        B, C = real_modes(self.B[..., lone, :], self.C[..., lone])
        index = lone.nonzero()[:, 0]
        return (
            self.B.index_copy(-2, index, B.to(self.B.dtype)),
            self.C.index_copy(-1, index, C.to(self.C.dtype)),
        )

    def to_pairs(self) -> DiagonalSystem:
        """The same system with one mode of every conjugate pair stored; raises where they do not pair up."""
        if self.pairs:
            return self
        if self.batch_shape:
            raise ShapeError("to_pairs works on one system at a time: take one with sys[i]")
        first, second = match_pairs(self.Lambda)
        product = self.C[..., None] * self.B  # (p, n, m)
        defect = (product[:, second] - product[:, first].conj()).abs().max().item()
        size = product.abs().max().item()
        if defect > 1e3 * self.n * torch.finfo(self.B.real.dtype).eps * size or self.D.is_complex():
            raise NotRealError(f"the modes do not come in conjugate pairs: C B differs by {defect:.1e} of {size:.1e}")
        Lambda = self.Lambda[first]
        if Lambda.is_complex():
            Lambda = torch.complex(Lambda.real, torch.where(first == second, 0.0, Lambda.imag))
        return self._like(DiagonalSystem(Lambda, self.B[first], self.C[:, first], self.D, dt=self.dt, pairs=True))

    def to_dense(self) -> DenseSystem:
        """The same system with ``A`` written out, every mode counted."""
        full = self.to_full()
        return self._like(DenseSystem(torch.diag_embed(full.Lambda), full.B, full.C, full.D, dt=full.dt))

    def to_real(self) -> DenseSystem:
        """A real system of the same size with 2 x 2 blocks ``[[Re, -Im], [Im, Re]]`` for the conjugate pairs."""
        full = self.to_full()
        return real_coordinates(full.to_dense(), full.Lambda)

    def discretize(self, dt: Any, method: Method = "bilinear") -> DiagonalSystem:
        """The discrete system with step ``dt``, again diagonal."""
        step = self._check_discretize(dt, method)
        imag = self.Lambda.imag if self.Lambda.is_complex() else torch.zeros_like(self.Lambda)
        # float64 also for float32: powers magnify the rounding of a single step
        real, imag, h = (as_float64(t) for t in (self.Lambda.real, imag, step[..., None]))
        if method == "bilinear":
            check_bilinear(~((h * real == 2) & (imag == 0)).any(-1), step, "A")
        modes = discretize_any(real, imag, h, method)
        Lambda, gain = (torch.complex(*pair.to(step).unbind(-1)) for pair in modes)
        if not self.Lambda.is_complex():
            Lambda, gain = Lambda.real, gain.real
        B = gain[..., None] * self.B
        return self._like(DiagonalSystem(Lambda, B, self.C, self.D, dt=step, pairs=self.pairs))._weighted(self._weight)

    def _in_units(self, unit: float) -> DiagonalSystem:
        return super()._in_units(unit)._weighted(self._weight)

    def _takes_complex(self) -> bool:
        return not self.pairs

    def _reading(self) -> Tensor:
        return self.C * self._weight[..., None, :] if self.pairs else self.C

    def _surely_stable(self) -> bool:
        return False  # its poles are exact: let them decide

    def _resolvent(self) -> DiagonalResolvent:
        full = self.to_full()
        return DiagonalResolvent(*(t.to(torch.complex128) for t in (full.Lambda, full.B, full.C)))

    def _state_matrix(self) -> Shaped[Tensor, "*batch n"]:
        return self.Lambda

    def _cost(self) -> int:
        return 2 * self.n_stored

    def _resolvent_form(self, s: Complex[Tensor, " k"]) -> Complex[Tensor, "*batch k p m"]:
        if not self.pairs:
            return self._stored_modes(s, self.C)
        C = self._reading()
        upper, lower = self._stored_modes(s, C), self._stored_modes(s.conj(), C).conj()
        return torch.where(upper.isinf() | lower.isinf(), torch.inf, (upper + lower) / 2)

    def _stored_modes(self, s: Complex[Tensor, " k"], C: Tensor) -> Complex[Tensor, "*batch k p m"]:
        gap = s[:, None] - self.Lambda[..., None, :]
        at_pole = gap == 0
        C, R, B = same_dtype(C, 1 / torch.where(at_pole, 1, gap), self.B)
        G = torch.einsum("...pn,...kn,...nm->...kpm", C, R, B)
        return torch.where(at_pole.any(-1)[..., None, None], torch.inf, G)
