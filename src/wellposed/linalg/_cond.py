"""The smallest perturbation with a given condition number.

kappa falls with the size of the perturbation, but not steadily: a closed form may do at one size what it does not do at
three times that size. So where secants have found a size, smaller ones are tried, and they begin anew at one that does.
Where optimised perturbations do better, a path of minima is followed to smaller sizes, each found from the one before.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from wellposed.errors import ConvergenceError
from wellposed.linalg._automatic import WORTH, as_good_as_it_gets, stable_problem
from wellposed.linalg._eigen import Eigen, eigen
from wellposed.linalg._found import ROUNDING, Clock, Found
from wellposed.linalg._low_rank import low_rank_candidates
from wellposed.linalg._matrix import Array, norm2
from wellposed.linalg._optimized import STEADY, refine
from wellposed.linalg._request import Request

_SECANTS = 20  # steps to a condition number
_PATHS = 3  # of minima that are followed, each from a better one met at the end of the last ...
_BETTER = 0.98  # ... by this factor in kappa
_JUMP = 0.7  # of the size at which a path ended before its time
_STEP = 0.25  # of the size: the largest step down such a path ...
_NO_STEP = 0.995  # ... and one that is none
_HIT = 0.99  # of the target: near enough
_SLOPE = -0.85  # kappa falls a little slower than 1 / ||E|| on HiPPO matrices: a slope until one is measured
_BELOW = (0.3, 0.1, 0.03, 0.01)  # of the size that does: others that may do as well, unless two in a row ...
_FALL = -0.7  # ... have a kappa that falls with the size at least like this power of it, as it should
_NEAR = 2.0  # the best lengths of columns gain a few percent over balanced ones: not asked for above this many targets
_LEAST = float(np.finfo(float).eps)  # of ||A||: smaller perturbations are lost in rounding

Perturb = Callable[..., Any]


def has_condition(result: Eigen, target: float) -> bool:
    """Whether the condition number of the eigenvectors is at most the target, whatever their lengths."""
    kappa = result.balanced_condition
    return kappa <= target * ROUNDING or (kappa < _NEAR * target and result.scaling.condition <= target * ROUNDING)


def smallest_for_cond(
    A: Array, request: Request, target: float, closed_forms: Perturb, perturb: Perturb, clock: Clock
) -> Found:
    """The smallest perturbation found whose condition number is the target."""
    norm, search = norm2(A), _Secants(request, target, clock)

    def rough(rel: float) -> Found:
        return perturb(A, request, norm * rel, clock, rough=True)

    def closed(rel: float) -> Found:
        return closed_forms(A, request, norm * rel, clock)[0]

    # On HiPPO matrices kappa is about 0.5 / rel: a size to begin with.
    rel = min(0.3, 0.5 / target)
    best = search.run(closed, rel)
    if best is None and request.tries_everything:
        best = search.run(rough, rel, any_size=True)
    if best is None:
        raise ConvergenceError(_why_not_reached(request, search.reached))
    if request.method != "gaussian":
        best = _look_below(A, search, closed, best)
    return _optimised(A, request, search, perturb, best) if request.tries_everything else best


def _optimised(A: Array, request: Request, search: _Secants, perturb: Perturb, best: Found) -> Found:
    """A smaller one than the first that does; not for a closed form that is nearly as small."""
    # Only of the rank-one form is it known that little is in reach: descents go far below others and random matrices.
    size, closed_form = norm2(best.result.E), request.method == "auto" and best.method == "rank-one"
    if closed_form and as_good_as_it_gets(stable_problem(A, request, size), request, best.result):
        return best
    lower = _further_down(A, request, search, perturb, best)
    return best if closed_form and WORTH * norm2(lower.result.E) > size else lower


def _further_down(A: Array, request: Request, search: _Secants, perturb: Perturb, best: Found) -> Found:
    """The smallest on paths of minima: down the one that ``best`` is on, then down better ones met at its end."""
    for _ in range(_PATHS):
        best = _down(A, request, search, best)
        if search.clock.over:
            break
        # A path may end before the target, where it meets unstable matrices: another one may begin further down.
        kappa = search.kappa(best)
        ended = kappa < _HIT * search.target
        other = perturb(A, request, (_JUMP if ended else 1.0) * norm2(best.result.E), search.clock)
        reached = search.kappa(other)
        if not search.does(other, reached) or (reached > _BETTER * kappa and not ended):
            break
        best = other
    return best


def _down(A: Array, request: Request, search: _Secants, best: Found) -> Found:
    """Minima at smaller and smaller sizes, each found from the one before: from afar kappa is not even continuous."""
    kappa, ratio, slope = search.kappa(best), _STEP, _SLOPE
    for _ in range(_SECANTS):
        if kappa >= _HIT * search.target or ratio > _NO_STEP or search.clock.over:
            break
        step = max(ratio, search.ratio(kappa, slope))
        E = step * best.result.E
        start = eigen(A, E)
        result, converged = refine(stable_problem(A, request, norm2(E)), start, stages=STEADY, clock=search.clock)
        found = Found(min(start, result, key=request.sort_key), "optimized", converged, best.start or best.method)
        reached = search.kappa(found)
        slope = _slope(reached / kappa, step) if np.isfinite(reached) else slope
        if search.does(found, reached):
            best, kappa = found, reached
        else:
            ratio = float(np.sqrt(step))
    return best


def _slope(kappas: float, sizes: float) -> float:
    """Of kappa over the size in log-log, from two of them."""
    return float(np.clip(np.log(kappas) / np.log(sizes), -2, -0.3))


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
            found = search.run(closed, factor * size / norm) or probe
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
        kappa = found.result.balanced_condition
        if kappa < _NEAR * self.target:
            kappa = found.result.scaling.condition
        if self.request.meets(found.result):
            self.reached = min(self.reached, kappa)
        return kappa

    def does(self, found: Found, kappa: float) -> bool:
        """Whether a candidate is what was asked for."""
        return kappa <= self.target * ROUNDING and self.request.meets(found.result)

    def ratio(self, kappa: float, slope: float) -> float:
        """Of the size that should do to one that has this kappa; aimed a little below the target: above is no hit."""
        return float((0.5 * (1 + _HIT) * self.target / kappa) ** (1 / slope))

    def run(self, attempt: Callable[[float], Found], rel: float, *, any_size: bool = False) -> Found | None:
        """The smallest perturbation met that does it, from one of size ``rel``; with ``any_size`` the first."""
        low, high, best, slope = 0.0, 1.0, None, _SLOPE
        last: tuple[float, float] | None = None
        for _ in range(_SECANTS):
            found = attempt(rel)
            kappa = self.kappa(found)
            if self.does(found, kappa):
                high, best = rel, found
                if any_size or kappa >= _HIT * self.target:
                    break
            else:
                low = rel
            if last is not None and np.isfinite(kappa) and rel != last[0]:
                slope = _slope(kappa / last[1], rel / last[0])
            last = (rel, kappa) if np.isfinite(kappa) else last
            guess = rel * self.ratio(kappa, slope) if np.isfinite(kappa) else 0.0
            # Where the secant leaves the bracket, its geometric mean: sizes are spread over many powers of ten.
            rel = guess if low < guess < high else float(np.sqrt(max(low, 1e-16) * high))
            if high < 1.001 * low or self.clock.over:
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
