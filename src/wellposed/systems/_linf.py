"""How far apart two systems are: the supremum of ||G1 - G2|| over the imaginary axis, with a certificate.

Around any point s0 with R = (s0 I - A)^-1 and h = s - s0,

    G(s) = sum_{k<K} (-h)^k C R^(k+1) B + (-h)^K C R^(K/2) (sI - A)^-1 R^(K/2) B,

and ||(sI - A)^-1|| <= ||R|| / (1 - |h| ||R||). So one evaluation bounds G over a whole cell, and cells that cannot
beat the best value found are dropped; the rest are halved. A spike cannot hide between two samples, because close to a
pole ||R|| is large and the cells there are small: docs/devdocs/linf.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from jaxtyping import Complex128, Float64
from torch import Tensor

from wellposed.errors import ArgumentError, ConvergenceError, ShapeError, TimeDomainError, UnstableError
from wellposed.systems._base import System
from wellposed.systems._dense import DenseSystem
from wellposed.systems._diagonal import DiagonalSystem
from wellposed.systems._dplr import DPLRSystem

_CHUNK = 1 << 21
_HALF = 4  # K/2
_RESOLVED = 0.5  # a cell of half-width h is worth a full evaluation once h ||R|| is below this

Real = Float64[Tensor, " k"]
Points = Complex128[Tensor, " k"]


@dataclass(frozen=True)
class LinfDistance:
    """The distance of two systems: ``value`` is attained at ``frequency``, and nothing exceeds ``upper``."""

    value: float
    frequency: float
    upper: float
    evaluations: int

    def __float__(self) -> float:
        return self.value

    def __str__(self) -> str:
        return (
            f"sup |G1 - G2| = {self.value:.6g} at omega = {self.frequency:.7g} "
            f"(certified below {self.upper:.7g}, {self.evaluations} evaluations)"
        )


class _Local(NamedTuple):
    """What the bound needs from one system at some points."""

    taylor: Complex128[Tensor, "order k p m"]
    """``(-1)^j C R^(j+1) B`` for ``j < K``, and ``D`` added to the first: the Taylor coefficients of G."""
    tail: Real
    """``||C R^(K/2)|| ||R^(K/2) B||``"""


class _Side:
    """One of the two systems, in float64 and with every mode written out."""

    def __init__(self, system: System) -> None:
        system = system.detach().to(device="cpu", dtype=torch.float64)
        if isinstance(system, DPLRSystem) and bool((system.Lambda.real.abs() <= 1e-6 * system.Lambda.abs()).any()):
            system = system.to_dense()  # the diagonal part alone has a pole on the axis, where Woodbury divides by 0
        self.system = system.to_full() if isinstance(system, DiagonalSystem) else system
        self.B, self.C = (t.to(torch.complex128) for t in (system.B, system.C))
        if isinstance(self.system, (DiagonalSystem, DPLRSystem)):
            self.B, self.C = (t.to(torch.complex128) for t in (self.system.B, self.system.C))
            self.Lambda = self.system.Lambda.to(torch.complex128)
        else:
            # A unitary change of coordinates makes every later solve triangular.
            A = self.system.to_dense().A.to(torch.complex128)
            self.T, Z = _schur(A)
            self.B, self.C = Z.mH @ self.B, self.C @ Z
            self.Lambda = self.T.diagonal()

    def norm(self) -> float:
        """An upper bound for ||A||."""
        if isinstance(self.system, DenseSystem):
            return torch.linalg.matrix_norm(self.system.A).item()
        largest = self.Lambda.abs().max().item()
        if isinstance(self.system, DPLRSystem):
            largest += _norm(self.system.P) * _norm(self.system.Q)
        return largest

    def resolvent_norm(self, s: Points) -> Real:
        """An upper bound for ||(sI - A)^-1||."""
        if isinstance(self.system, DenseSystem):
            pencil = s[:, None, None] * torch.eye(self.system.n, device="cpu") - self.T
            return 1 / torch.linalg.svdvals(pencil)[:, -1]
        R = 1 / (s[:, None] - self.Lambda)
        normal = R.abs().amax(-1)
        if isinstance(self.system, DiagonalSystem):
            return normal
        RP, QR, inverse = self._woodbury(R)
        return normal + _norms(RP) * _norms(inverse) * _norms(QR)

    def _woodbury(self, R: Complex128[Tensor, "k n"]) -> tuple[Tensor, Tensor, Tensor]:
        assert isinstance(self.system, DPLRSystem)
        P, Q = (t.to(torch.complex128) for t in (self.system.P, self.system.Q))
        RP, QR = R[..., None] * P, Q.mH * R[:, None, :]
        return RP, QR, torch.linalg.inv(torch.eye(P.shape[-1], device="cpu") + QR @ P)

    def local(self, s: Points) -> _Local:
        """Taylor coefficients of the transfer function, and what bounds the rest of the series."""
        right, left = self._solvers(s)
        X, Y = [self.B.expand(len(s), -1, -1)], [self.C.expand(len(s), -1, -1)]
        for _ in range(_HALF):
            X.append(right(X[-1]))
            Y.append(left(Y[-1]))
        # C R^(j+1) B as (C R^a) (R^b B) with a + b = j + 1
        taylor = [(-1) ** j * Y[(j + 1) // 2] @ X[j + 1 - (j + 1) // 2] for j in range(2 * _HALF)]
        taylor[0] = taylor[0] + self.system.D
        return _Local(torch.stack(taylor), _norms(X[-1]) * _norms(Y[-1]))

    def _solvers(self, s: Points) -> tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]:
        """``X -> R X`` and ``Y -> Y R``."""
        if isinstance(self.system, DenseSystem):
            pencil = s[:, None, None] * torch.eye(self.system.n, device="cpu") - self.T
            solve = torch.linalg.solve_triangular
            return (
                lambda X: solve(pencil, X, upper=True),
                lambda Y: solve(pencil, Y, upper=True, left=False),
            )
        R = 1 / (s[:, None] - self.Lambda)
        if isinstance(self.system, DiagonalSystem):
            return (lambda X: R[..., None] * X, lambda Y: Y * R[:, None, :])
        RP, QR, inverse = self._woodbury(R)
        PK, KQ = RP @ inverse, inverse @ QR
        return (
            lambda X: R[..., None] * X - PK @ (QR @ X),
            lambda Y: Y * R[:, None, :] - (Y @ RP) @ KQ,
        )

    def cost(self) -> int:
        n = self.system.n
        return n * n if isinstance(self.system, DenseSystem) else 4 * n


def _schur(A: Tensor) -> tuple[Tensor, Tensor]:
    from scipy.linalg import schur

    T, Z = schur(A.numpy(), output="complex")[:2]
    return torch.from_numpy(T), torch.from_numpy(Z)


def _norm(M: Tensor) -> float:
    return _norms(M).item()


def _norms(M: Tensor) -> Tensor:
    """Largest singular value of each matrix; the length of the vector where it is one."""
    if min(M.shape[-2:]) < 2:
        return torch.linalg.vector_norm(M, dim=(-2, -1))
    return torch.linalg.svdvals(M)[..., 0]


def linf_distance(
    sys1: System,
    sys2: System,
    *,
    rtol: float = 1e-8,
    require_stable: bool = True,
    max_evaluations: int = 3_000_000,
) -> LinfDistance:
    """Supremum of the largest singular value of ``G1 - G2`` over the imaginary axis (discrete: the unit circle).

    The result is certified: ``value`` is attained at ``frequency``, and ``upper`` bounds the supremum, with
    ``upper <= value (1 + rtol)`` up to the rounding error of the two responses. For stable systems this is the largest
    factor by which the outputs can differ in L2 for inputs of norm 1. With ``require_stable=False`` the
    supremum is computed for unstable systems too, as long as no pole lies on the axis.

    >>> from wellposed.systems import s4, s4d
    >>> distance = linf_distance(s4(32), s4d(32))
    >>> round(distance.value, 6), round(distance.frequency, 4)
    (0.450517, 325.4263)
    """
    _check_pair(sys1, sys2, rtol)
    for name, system in (("sys1", sys1), ("sys2", sys2)):
        if require_stable:
            _check_stable(system, name)
        else:
            _check_off_axis(system, name)
    search = _Search(_Side(sys1), _Side(sys2), rtol, max_evaluations)
    return search.run()


def _check_pair(sys1: System, sys2: System, rtol: float) -> None:
    if sys1.is_discrete != sys2.is_discrete:
        kinds = ["discrete" if s.is_discrete else "continuous" for s in (sys1, sys2)]
        raise TimeDomainError(f"sys1 is {kinds[0]} and sys2 is {kinds[1]}: discretize one of them first")
    if sys1.dt is not None and sys2.dt is not None and not _same_step(sys1.dt, sys2.dt):
        raise TimeDomainError(f"the time steps differ: {sys1.dt.tolist()} and {sys2.dt.tolist()}")
    if sys1.batch_shape or sys2.batch_shape:
        shapes = tuple(sys1.batch_shape), tuple(sys2.batch_shape)
        raise ShapeError(f"one pair of systems at a time, got batches {shapes}: take one with sys[i]")
    if (sys1.outputs, sys1.inputs) != (sys2.outputs, sys2.inputs):
        raise ShapeError(
            f"sys1 has {sys1.outputs} outputs and {sys1.inputs} inputs, sys2 {sys2.outputs} and {sys2.inputs}"
        )
    if not 1e-12 <= rtol < 1:
        raise ArgumentError(f"rtol must lie between 1e-12 and 1, got {rtol:g}")


def _same_step(dt1: Tensor, dt2: Tensor) -> bool:
    """Equal up to single precision, in which one of the two may have been stored."""
    a, b = dt1.cpu().double(), dt2.cpu().double()
    return a.shape == b.shape and bool(torch.isclose(a, b, rtol=1e-6, atol=0).all())


def _check_stable(system: System, name: str) -> None:
    if not isinstance(system, DiagonalSystem):
        # Cheap and enough for S4: a contractive matrix, or one with negative definite Hermitian part, is stable.
        A = system.to_dense().A
        if system.is_discrete and _norm(A) < 1:
            return
        if not system.is_discrete and torch.linalg.eigvalsh((A + A.mH) / 2)[-1] < 0:
            return
    margin = system.stability_margin().item()
    if margin <= 0:
        what = "largest |pole|" if system.is_discrete else "largest real part of a pole"
        value = 1 - margin if system.is_discrete else -margin
        raise UnstableError(
            f"{name} is not stable: {what} = {value:.6g}; pass require_stable=False to compare responses anyway"
        )


def _check_off_axis(system: System, name: str) -> None:
    poles = system.poles()
    distance = (poles.abs() - 1 if system.is_discrete else poles.real).abs()
    on = distance <= 4e-16 * poles.abs()
    if bool(on.any()):
        axis = "unit circle" if system.is_discrete else "imaginary axis"
        raise UnstableError(
            f"{name} has a pole on the {axis} to working precision, {poles[on][0].item():.9g}: the supremum is infinite"
        )


class _Search:
    def __init__(self, side1: _Side, side2: _Side, rtol: float, max_evaluations: int) -> None:
        self.sides = side1, side2
        self.dt = None if side1.system.dt is None else side1.system.dt.item()
        self.rtol, self.budget = rtol, max_evaluations
        self.best, self.at, self.upper = -1.0, 0.0, 0.0
        # Largest |G1|, |G2| seen, and at least what rounding makes of them: sets the error of their difference.
        self.size = sum(_norm(side.B) * _norm(side.C) / max(side.norm(), 1e-300) for side in self.sides)
        self.evaluations = 0

    def point(self, omega: Real) -> Points:
        """The point of the axis, or of the unit circle, that belongs to a frequency or an angle."""
        return torch.complex(torch.zeros_like(omega), omega) if self.dt is None else torch.exp(1j * omega)

    def run(self) -> LinfDistance:
        """Candidates first, then the certificate, then the last digits."""
        candidates = torch.cat([side.Lambda for side in self.sides])
        candidates = candidates.imag if self.dt is None else candidates.angle()
        self.look(torch.cat([candidates.new_zeros(1), candidates]), candidates.new_zeros(len(candidates) + 1))
        self.polish(1.0)
        lo, hi = self.ends()
        cells = torch.linspace(lo, hi, 65, dtype=torch.float64, device="cpu")
        self.certify((cells[1:] + cells[:-1]) / 2, (cells[1:] - cells[:-1]) / 2)
        self.polish(1e-3)
        if self.dt is None and self.gap_at_infinity() >= self.best:
            self.best, self.at = self.gap_at_infinity(), math.inf
        scale = 1.0 if self.dt is None else 1 / self.dt
        return LinfDistance(self.best, self.at * scale, max(self.upper, self.best), self.evaluations)

    def gap_at_infinity(self) -> float:
        return _norm(self.sides[0].system.D - self.sides[1].system.D)

    def goal(self) -> float:
        """Nothing above this is left to find: the accuracy asked for, or what rounding allows."""
        return max(self.best * (1 + self.rtol), self.best + 1e-13 * self.size)

    def ends(self) -> tuple[float, float]:
        """An interval outside of which ``||D1 - D2|| + sum ||C|| ||B|| / (|omega| - ||A||)`` is below the goal."""
        if self.dt is not None:
            return -math.pi, math.pi
        gap = self.gap_at_infinity()
        self.best, self.at = (gap, math.inf) if gap > self.best else (self.best, self.at)
        slack = max(self.goal() - gap, 1e-300)
        gain = sum(_norm(side.B) * _norm(side.C) for side in self.sides)
        self.upper = self.goal()
        end = max(side.norm() for side in self.sides) + gain / slack
        return -end, end

    def certify(self, center: Real, half: Real) -> None:
        while len(center):
            if self.evaluations > self.budget:
                raise ConvergenceError(
                    f"after {self.evaluations} evaluations the distance is only known to lie above {self.best:.6g}: "
                    f"raise max_evaluations or rtol = {self.rtol:g}"
                )
            self.check_resolution(center, half)
            bound = self.look(center, half)
            open_ = bound > self.goal()
            if bool((~open_).any()):
                self.upper = max(self.upper, bound[~open_].max().item())
            center, half = center[open_], half[open_] / 2
            center, half = torch.cat([center - half, center + half]), torch.cat([half, half])

    def check_resolution(self, center: Real, half: Real) -> None:
        tiny = half < 4e-16 * center.abs().clamp(min=1e-30)
        if bool(tiny.any()):
            where = center[tiny][0].item()
            raise UnstableError(
                f"a pole lies on the imaginary axis (or the unit circle) to working precision, near {where:.9g}: "
                "the supremum is infinite"
            )

    def look(self, center: Real, half: Real) -> Real:
        """Evaluate at the centers, keep the best, and bound the difference over each cell."""
        step = max(1, _CHUNK // max(side.cost() for side in self.sides))
        pieces = zip(center.split(step), half.split(step), strict=True)
        return torch.cat([self._look(c, h) for c, h in pieces])

    def _look(self, center: Real, half: Real) -> Real:
        self.evaluations += len(center)
        s = self.point(center)
        rho = [side.resolvent_norm(s) for side in self.sides]
        bound = torch.full_like(center, math.inf)
        fine = torch.stack([half * r for r in rho]).amax(0) < _RESOLVED
        if not bool(fine.any()):
            return bound
        h, s = half[fine], s[fine]
        a, b = (side.local(s) for side in self.sides)
        difference = a.taylor - b.taylor
        value = _norms(difference[0])
        self.size = max(self.size, a.taylor[0].abs().max().item(), b.taylor[0].abs().max().item())
        top = int(value.argmax())
        if value[top].item() > self.best:
            self.best, self.at = value[top].item(), center[fine][top].item()
        bound[fine] = self._bound(s, h, difference) + h ** (2 * _HALF) * sum(
            side.tail * r[fine] / (1 - h * r[fine]) for side, r in zip((a, b), rho, strict=True)
        )
        return bound

    def _bound(self, s: Points, h: Real, difference: Complex128[Tensor, "order k p m"]) -> Real:
        """Bound for the Taylor polynomial of the difference over the cells, without the remainder."""
        # The first two terms are a segment, and a norm on a segment is largest at one of its ends.
        direction = 1j * h if self.dt is None else 1j * h * s
        move = direction[:, None, None] * difference[1]
        total = torch.maximum(_norms(difference[0] + move), _norms(difference[0] - move))
        if self.dt is not None:  # the circle leaves its tangent by at most h^2 / 2
            total = total + h**2 / 2 * _norms(difference[1])
        for k in range(2, 2 * _HALF):
            total = total + h**k * _norms(difference[k])
        return total

    def polish(self, width: float) -> None:
        """Climb to the top of the peak the best point sits on."""
        from scipy.optimize import minimize_scalar

        if not math.isfinite(self.at):
            return

        def height(omega: float) -> float:
            s = self.point(torch.tensor([omega], dtype=torch.float64, device="cpu"))
            self.evaluations += 1
            return -_norms(self.sides[0].local(s).taylor[0] - self.sides[1].local(s).taylor[0]).item()

        bounds = (self.at - width, self.at + width)
        found: Any = minimize_scalar(height, bounds=bounds, method="bounded", options={"xatol": 1e-9 * width})
        if -found.fun > self.best:
            self.best, self.at = float(-found.fun), float(found.x)
            self.at = self.at if self.dt is None else math.remainder(self.at, 2 * math.pi)
        if self.at < 0 and -height(-self.at) >= self.best * (1 - 1e-12):  # symmetric: name the positive one
            self.at = -self.at
