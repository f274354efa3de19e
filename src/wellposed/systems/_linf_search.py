"""The search behind ``linf_distance``: one evaluation bounds the difference over a whole cell.

Around any point s0 with R = (s0 I - A)^-1 and h = s - s0,

    G(s) = sum_{k<K} (-h)^k C R^(k+1) B + (-h)^K C R^(K/2) (sI - A)^-1 R^(K/2) B,

and ||(sI - A)^-1|| <= ||R|| / (1 - |h| ||R||). So one evaluation bounds G over a whole cell, and cells that cannot
beat the best value found are dropped; the rest are halved. A spike cannot hide between two samples, because close to a
pole ||R|| is large and the cells there are small: docs/devdocs/linf.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from jaxtyping import Complex128
from torch import Tensor

from wellposed.errors import ConvergenceError, NotFiniteError, UnstableError
from wellposed.systems._base import System
from wellposed.systems._parts import largest_part
from wellposed.systems._resolvent import Points, Real, Solve, norm, norms

_CHUNK = 1 << 21  # numbers held at once, about 32 MB
_HALF = 4  # K/2
_ORDINARY = (1e-6, 1e12)  # norms of A in which time is counted as it comes
_RESOLVED = 0.5  # a cell of half-width h is worth a full evaluation once h ||R|| is below this


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
    """``||C R^(K/2)|| ||R^(K/2) B||``, or ``||C R^K|| ||B||``"""


class Units:
    """Powers of two to count time and responses in, so that neither these nor their products overflow or vanish."""

    def __init__(self, *systems: System) -> None:
        size = max(system._magnitude() for system in systems)
        # Discrete time is counted in steps. Continuous time as it comes, where powers of frequencies are floats.
        ordinary = systems[0].is_discrete or size == 0 or _ORDINARY[0] < size < _ORDINARY[1]
        self.time = 0 if ordinary else 2 * (_exponent(size) // 2)
        self.gain = max(k for system in systems for k in self._gains(system))

    def _gains(self, system: System) -> tuple[int, int]:
        """Exponents of ``||C|| ||B||`` and of ``D``; of nothing at all a very small one."""
        B, C, D = (largest_part(t) for t in (system.B, system.C, system.D))
        return _exponent(B) + _exponent(C) - self.time if B and C else -2000, _exponent(D) if D else -2000

    def applied(self, system: System) -> System:
        """The same system in these units."""
        b, c = (_exponent(largest_part(t)) for t in (system.B, system.C))
        left = max(b + c - self.time - self.gain, -1000)  # of this system's response, where the other's is larger
        scaled = system.replace(
            B=system.B * 2.0**-b,
            C=system.C * 2.0**-c * 2.0**left,
            D=system.D * 2.0 ** -min(max(self.gain, -1000), 1000),
        )
        return scaled._in_units(2.0**self.time) if self.time else scaled

    def response(self, value: float) -> float:
        """What a response in these units is; infinite beyond the largest float."""
        try:
            return math.ldexp(value, self.gain)
        except OverflowError:
            return math.inf

    def frequency(self, omega: float) -> float:
        """What a frequency in these units is."""
        return omega * 2.0**self.time


def _exponent(size: float) -> int:
    """That of the power of two above it, as far as the inverse of that is a float."""
    return min(max(math.frexp(size)[1], -1000), 1000)


class Side:
    """One of the two systems, in float64 and without its gradients, in the units of both."""

    def __init__(self, system: System, units: Units) -> None:
        system = units.applied(system)
        self.D = system.D
        self.resolvent = system._resolvent()
        self.norm_B = norm(self.resolvent.B)

    def gain(self) -> float:
        """``||C|| ||B||``, by which the resolvent's norm bounds the response."""
        return self.norm_B * norm(self.resolvent.C)

    def local(self, s: Points) -> _Local:
        """Taylor coefficients of the transfer function, and what bounds the rest of the series."""
        right, left = self.resolvent.solvers(s)
        if len(self.resolvent.C) == 1 and self.resolvent.B.shape[1] > 1:
            return self._local_row(s, left)
        X, Y = [self.resolvent.B.expand(len(s), -1, -1)], [self.resolvent.C.expand(len(s), -1, -1)]
        for _ in range(_HALF):
            X.append(right(X[-1]))
            Y.append(left(Y[-1]))
        # C R^(j+1) B as (C R^a) (R^b B) with a + b = j + 1
        taylor = [(-1) ** j * Y[(j + 1) // 2] @ X[j + 1 - (j + 1) // 2] for j in range(2 * _HALF)]
        taylor[0] = taylor[0] + self.D
        return _Local(torch.stack(taylor), norms(X[-1]) * norms(Y[-1]))

    def _local_row(self, s: Points, left: Solve) -> _Local:
        """The same of one output and many inputs: powers of R on its side alone, so that no matrices are held."""
        Y = [self.resolvent.C.expand(len(s), -1, -1)]
        for _ in range(2 * _HALF):
            Y.append(left(Y[-1]))
        signs = torch.tensor([(-1) ** j for j in range(2 * _HALF)], dtype=torch.float64, device="cpu")
        taylor = torch.stack(Y[1:]) * signs[:, None, None, None] @ self.resolvent.B
        taylor[0] += self.D
        # the remainder is (-h)^K C R^K (sI - A)^-1 B as well
        return _Local(taylor, norms(Y[-1]) * self.norm_B)


class Search:
    """Cells of the axis, halved until none of them can beat the best value found."""

    def __init__(self, sys1: System, sys2: System, rtol: float, max_evaluations: int) -> None:
        one, two = (system.detach().to(device="cpu", dtype=torch.float64) for system in (sys1, sys2))
        self.dt = None if one.dt is None else one.dt.item()
        self.units = Units(one, two)
        self.sides = Side(one, self.units), Side(two, self.units)
        self.rtol, self.budget = rtol, max_evaluations
        self.best, self.at, self.upper = -1.0, 0.0, 0.0
        # Largest |G1|, |G2| seen, and at least what rounding makes of them: sets the error of their difference.
        self.size = sum(side.gain() / max(side.resolvent.norm_A(), 1e-300) for side in self.sides)
        self.evaluations = 0

    def point(self, omega: Real) -> Points:
        """The point of the axis, or of the unit circle, that belongs to a frequency or an angle."""
        return torch.complex(torch.zeros_like(omega), omega) if self.dt is None else torch.exp(1j * omega)

    def run(self) -> LinfDistance:
        """Candidates first, then the certificate, then the last digits."""
        candidates = torch.cat([side.resolvent.peaks() for side in self.sides])
        candidates = candidates.imag if self.dt is None else candidates.angle()
        self.look(torch.cat([candidates.new_zeros(1), candidates]), candidates.new_zeros(len(candidates) + 1))
        self.polish(1.0)
        lo, hi = self.ends()
        cells = torch.linspace(lo, hi, 65, dtype=torch.float64, device="cpu")
        self.certify((cells[1:] + cells[:-1]) / 2, (cells[1:] - cells[:-1]) / 2)
        self.polish(1e-3)
        if self.dt is None and self.gap_at_infinity() >= self.best:
            self.best, self.at = self.gap_at_infinity(), math.inf
        frequency = self.units.frequency(self.at) if self.dt is None else self.at / self.dt
        value, upper = (self.units.response(value) for value in (self.best, max(self.upper, self.best)))
        if math.isinf(value):
            raise NotFiniteError("the distance is beyond the largest float, 1.8e308: divide B or C by a power of two")
        return LinfDistance(value, frequency, upper, self.evaluations)

    def gap_at_infinity(self) -> float:
        return norm(self.sides[0].D - self.sides[1].D)

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
        gain = sum(side.gain() for side in self.sides)
        self.upper = self.goal()
        end = max(side.resolvent.norm_A() for side in self.sides) + gain / slack
        return -end, end

    def certify(self, center: Real, half: Real) -> None:
        while len(center):
            if self.evaluations > self.budget:
                raise ConvergenceError(
                    f"after {self.evaluations} evaluations the distance is only known to lie above {self._best():.6g}: "
                    f"raise max_evaluations or rtol = {self.rtol:g}"
                )
            bound = self.look(center, half)
            open_ = bound > self.goal()
            # No frequencies lie between: a peak that narrow is bounded, if not to the accuracy asked for.
            finest = half < 4e-16 * center.abs().clamp(min=1e-30)
            self.check_resolution(center[open_ & finest & bound.isinf()])
            open_ = open_ & ~finest
            if bool((~open_).any()):
                self.upper = max(self.upper, bound[~open_].max().item())
            center, half = center[open_], half[open_] / 2
            center, half = torch.cat([center - half, center + half]), torch.cat([half, half])

    def check_resolution(self, center: Real) -> None:
        """Refuse cells that no evaluation bounds, and that cannot be halved: there is a pole nearer than floats are."""
        if len(center):
            raise UnstableError(
                "a pole lies on the imaginary axis (or the unit circle) to working precision, near "
                f"{self.units.frequency(center[0].item()):.9g}: the supremum is infinite, or beyond {self._best():.3g}"
            )

    def _best(self) -> float:
        return self.units.response(self.best)

    def look(self, center: Real, half: Real) -> Real:
        """Evaluate at the centers, keep the best, and bound the difference over each cell."""
        step = max(1, _CHUNK // max(side.resolvent.cost() for side in self.sides))
        pieces = zip(center.split(step), half.split(step), strict=True)
        return torch.cat([self._look(c, h) for c, h in pieces])

    def _look(self, center: Real, half: Real) -> Real:
        self.evaluations += len(center)
        s = self.point(center)
        rho = [side.resolvent.norm(s) for side in self.sides]
        bound = torch.full_like(center, math.inf)
        fine = torch.stack([half * r for r in rho]).amax(0) < _RESOLVED
        if not bool(fine.any()):
            return bound
        h, s = half[fine], s[fine]
        a, b = (side.local(s) for side in self.sides)
        difference = a.taylor - b.taylor
        value = norms(difference[0])
        value = torch.where(value.isfinite(), value, -1.0)
        sizes = (side.taylor[0].abs().nan_to_num(0.0, 0.0).max().item() for side in (a, b))
        self.size = max(self.size, *sizes)
        top = int(value.argmax())
        if value[top].item() > self.best:
            self.best, self.at = value[top].item(), center[fine][top].item()
        found = self._bound(s, h, difference) + h ** (2 * _HALF) * sum(
            side.tail * r[fine] / (1 - h * r[fine]) for side, r in zip((a, b), rho, strict=True)
        )
        bound[fine] = torch.where(found.isnan(), math.inf, found)  # beyond floats: nothing is known of the cell
        return bound

    def _bound(self, s: Points, h: Real, difference: Complex128[Tensor, "order k p m"]) -> Real:
        """Bound for the Taylor polynomial of the difference over the cells, without the remainder."""
        # The first two terms are a segment, and a norm on a segment is largest at one of its ends.
        direction = 1j * h if self.dt is None else 1j * h * s
        move = direction[:, None, None] * difference[1]
        total = torch.maximum(norms(difference[0] + move), norms(difference[0] - move))
        if self.dt is not None:  # the circle leaves its tangent by at most h^2 / 2
            total = total + h**2 / 2 * norms(difference[1])
        for k in range(2, 2 * _HALF):
            total = total + h**k * norms(difference[k])
        return total

    def polish(self, width: float) -> None:
        """Climb to the top of the peak the best point sits on."""
        from scipy.optimize import minimize_scalar

        if not math.isfinite(self.at):
            return

        def height(omega: float) -> float:
            s = self.point(torch.tensor([omega], dtype=torch.float64, device="cpu"))
            self.evaluations += 1
            return -norms(self.sides[0].local(s).taylor[0] - self.sides[1].local(s).taylor[0]).item()

        bounds = (self.at - width, self.at + width)
        found: Any = minimize_scalar(height, bounds=bounds, method="bounded", options={"xatol": 1e-9 * width})
        if -found.fun > self.best:
            self.best, self.at = float(-found.fun), float(found.x)
            self.at = self.at if self.dt is None else math.remainder(self.at, 2 * math.pi)
        if self.at < 0 and -height(-self.at) >= self.best * (1 - 1e-12):  # symmetric: name the positive one
            self.at = -self.at
