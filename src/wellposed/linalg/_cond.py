"""The smallest perturbation with a given condition number.

kappa falls with the size of the perturbation, but not steadily: a closed form may do at one size what it does not do at
three times that size. So where secants have found a size, smaller ones are tried, and they begin anew at one that does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from wellposed.errors import ConvergenceError
from wellposed.linalg._eigen import Eigen
from wellposed.linalg._found import ROUNDING, Clock, Found
from wellposed.linalg._low_rank import low_rank_candidates
from wellposed.linalg._matrix import Array, norm2
from wellposed.linalg._request import Request

_SECANTS = 20  # steps to a condition number ...
_LAST_SECANTS = 4  # ... and those in which the optimiser takes its time
_BELOW = (0.3, 0.1, 0.03, 0.01)  # of the size that does: others that may do as well, unless two in a row ...
_FALL = -0.7  # ... have a kappa that falls with the size at least like this power of it, as it should

_LEAST = float(np.finfo(float).eps)  # of ||A||: smaller perturbations are lost in rounding

Perturb = Callable[..., Any]


def has_condition(result: Eigen, target: float) -> bool:
    """Whether the condition number of the eigenvectors is at most the target, whatever their lengths."""
    kappa = result.balanced_condition
    # Other lengths gain a few percent, at the cost of many decompositions: not asked for where that is not enough.
    return kappa <= target * ROUNDING or (kappa < 2 * target and result.scaling.condition <= target * ROUNDING)


def smallest_for_cond(
    A: Array, request: Request, target: float, closed_forms: Perturb, perturb: Perturb, clock: Clock
) -> Found:
    """The smallest perturbation found whose condition number is the target.

    The optimiser, where it is needed, is in a hurry until the size is nearly known.
    """
    norm, search = norm2(A), _Secants(request, target, clock)

    def rough(rel: float) -> Found:
        return perturb(A, request, norm * rel, clock, rough=True)

    def closed(rel: float) -> Found:
        return closed_forms(A, request, norm * rel, clock)[0]

    # On HiPPO matrices kappa is about 0.5 / rel: a size to begin with.
    rel = min(0.3, 0.5 / target)
    best = search.run(closed, rel, _SECANTS)
    if best is None and request.tries_everything:
        best = search.run(rough, rel, _SECANTS)
    if best is None:
        raise ConvergenceError(_why_not_reached(request, search.reached))
    if request.method != "gaussian":
        best = _look_below(A, search, closed, best)
    # A random matrix or several pairs that do are no sign of the smallest size: descents reach far below them.
    if request.method == "optimized" or (request.method == "auto" and best.method != "rank-one"):
        best = search.run(rough, 0.8 * norm2(best.result.E) / norm, _SECANTS) or best
        fine = search.run(
            lambda rel: perturb(A, request, norm * rel, clock), norm2(best.result.E) / norm, _LAST_SECANTS
        )
        best = fine or best
    return best


def _look_below(A: Array, search: _Secants, closed: Callable[[float], Found], best: Found) -> Found:
    """A smaller one, where the closed form has been better at a smaller size already."""
    norm, size, usual = norm2(A), norm2(best.result.E), 0
    for factor in _BELOW:
        if factor * size < _LEAST * norm:
            break
        candidates = low_rank_candidates(A, factor * size, thorough=False)
        probe = Found(search.request.choose(candidates), "rank-one")
        kappa = search.kappa(probe)
        if search.does(probe, kappa):
            found = search.run(closed, factor * size / norm, _SECANTS) or probe
            return _look_below(A, search, closed, found) if norm2(found.result.E) < 0.9 * size else best
        usual += kappa > search.target * factor**_FALL
        if usual == 2:
            break
    return best


class _Secants:
    """Secants in log-log, bracketed; keeps the smallest condition number met."""

    def __init__(self, request: Request, target: float, clock: Clock) -> None:
        self.request, self.target, self.reached, self.clock = request, target, np.inf, clock

    def kappa(self, found: Found) -> float:
        """The condition number of a candidate, counted among those reached if it has the spectrum asked for."""
        kappa = found.result.scaling.condition if np.isfinite(found.result.balanced_condition) else np.inf
        if self.request.meets(found.result):
            self.reached = min(self.reached, kappa)
        return kappa

    def does(self, found: Found, kappa: float) -> bool:
        """Whether a candidate is what was asked for."""
        return kappa <= self.target * ROUNDING and self.request.meets(found.result)

    def run(
        self, attempt: Callable[[float], Found], rel: float, steps: int, first: Found | None = None
    ) -> Found | None:
        """The smallest perturbation met that does it, from one of size ``rel``."""
        # kappa falls a little slower than 1 / ||E|| here: a slope to begin with, replaced by the first one measured.
        low, high, best, slope = 0.0, 1.0, None, -0.85
        last: tuple[float, float] | None = None
        for _ in range(steps):
            found = attempt(rel)
            kappa = self.kappa(found)
            if self.does(found, kappa):
                high, best = rel, found
                if kappa >= 0.99 * self.target:
                    break
            else:
                low = rel
            if last is not None and np.isfinite(kappa) and rel != last[0]:
                slope = float(np.clip(np.log(kappa / last[1]) / np.log(rel / last[0]), -2, -0.3))
            last = (rel, kappa) if np.isfinite(kappa) else last
            # Aimed half a percent below the target: a hit is anything from 0.99 of it, and one above it is none.
            guess = rel * (0.995 * self.target / kappa) ** (1 / slope) if np.isfinite(kappa) else 0.0
            # Where the secant leaves the bracket, its geometric mean: sizes are spread over many powers of ten.
            rel = guess if low < guess < high else float(np.sqrt(max(low, 1e-16) * high))
            if high / max(low, 1e-300) < 1.001 or self.clock.over:
                break
        return best


def _why_not_reached(request: Request, reached: float) -> str:
    failed = f"cond = {request.amount:g} is not reached by a perturbation smaller than A itself: "
    if not np.isfinite(reached):
        other = "" if request.tries_everything else "take method='optimized'"
        if request.margin is None and not request.avoid_real:
            return failed + f"A + E stayed defective; {other or 'set the size of the perturbation (rel)'}"
        also = other and f", or {other}"
        return failed + f"none had the spectrum asked for; relax stable, margin or real_eigenvalues{also}"
    also = "" if request.method == "optimized" else ", take method='optimized',"
    return failed + (
        f"the best found is {reached:.10g}; ask for a larger cond{also} or set the size of the perturbation (rel)"
    )
