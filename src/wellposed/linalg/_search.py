"""Which perturbation to take: closed forms first, the optimiser where they do not do."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from wellposed.errors import ConvergenceError
from wellposed.linalg._eigen import Eigen, eigen
from wellposed.linalg._gaussian import gaussian
from wellposed.linalg._low_rank import low_rank_candidates
from wellposed.linalg._matrix import Array, norm2
from wellposed.linalg._optimized import Problem, refine, value
from wellposed.linalg._request import Request

_WELL_CONDITIONED = 10.0  # below this nobody needs a perturbation
_WORTH = 2.0  # "auto" perturbs only where that lowers the condition number by this factor
_SMALLER = (0.7, 0.5, 0.35, 0.25)  # of the size asked for
_BEYOND = 0.25  # of ||A||: where more perturbation stops helping a stable spectrum
_DRAWS = 4  # random matrices tried where the closed form does not do well
_SECANTS = 20  # steps to a condition number ...
_LAST_SECANTS = 4  # ... and those in which the optimiser takes its time
_STARTS = 3  # places the optimiser starts from; one is enough for large matrices, whose minima are all alike
_LARGE = 64
_ROUNDING = 1 + 1e-12  # of a condition number of 1, which no computed one attains


class Found(NamedTuple):
    """A perturbation, the name of what found it, and whether that converged."""

    result: Eigen
    method: str
    converged: bool = True


def search(A: Array, request: Request) -> Found:
    """The perturbation asked for; none where none is needed."""
    plain = Found(eigen(A, np.zeros_like(A)), "none")
    kappa, plain_meets = plain.result.balanced_condition, request.meets(plain.result)
    if (norm2(A) == 0 and request.eps is None) or request.eps == 0:
        return plain  # nothing to measure a perturbation by
    normal = kappa < 1 + 1e-6  # needs nothing, whoever asks
    if request.gamma is not None:
        return plain if normal and plain_meets else _solve_gamma(A, request, request.gamma, plain)
    enough = _WELL_CONDITIONED if request.cond is None else request.cond * _ROUNDING
    if (normal or request.method == "auto") and kappa <= enough and plain_meets:
        return plain
    if request.cond is not None:
        return _solve_cond(A, request, request.cond)
    assert request.eps is not None  # of the four knobs, rel and eps are left
    found = _perturb(A, request, request.eps)
    worth = np.isfinite(kappa) and kappa <= _WORTH * found.result.balanced_condition
    return plain if request.method == "auto" and worth and plain_meets else found


def _perturb(A: Array, request: Request, eps: float, *, rough: bool = False) -> Found:
    """The method asked for, at a given size; ``rough`` lets the optimiser stop early."""
    found = _closed_forms(A, request, eps)
    if request.method == "optimized" or (request.method == "auto" and not request.meets(found[0].result)):
        return _refined(A, request, eps, found, rough)
    return found[0]


def _closed_forms(A: Array, request: Request, eps: float) -> list[Found]:
    """Candidates that need no optimiser, best first; smaller only where the spectrum asked for wants that."""
    if request.method == "gaussian":
        return [Found(gaussian(A, eps, request.seed, complex_valued=request.complex_valued), "gaussian")]
    best = request.choose(low_rank_candidates(A, eps))
    if not request.meets(best) or (request.margin is not None and eps > _BEYOND * norm2(A)):
        smaller = (request.choose(low_rank_candidates(A, factor * eps)) for factor in _SMALLER)
        best = min([best, *smaller], key=request.sort_key)
    found = [Found(best, "rank-one")]
    good = best.balanced_condition <= _good_condition(norm2(A) / eps) and request.meets(best)
    if request.method != "rank-one" and not good:
        higher = request.choose(low_rank_candidates(A, eps, rank=None))
        found.append(Found(higher, f"rank-{np.linalg.matrix_rank(higher.E, tol=1e-8 * eps)}"))
        draws = (gaussian(A, eps, request.seed + k, complex_valued=request.complex_valued) for k in range(_DRAWS))
        found += [Found(draw, "gaussian") for draw in draws]
        found.sort(key=lambda item: request.sort_key(item.result))
    return found


def _refined(A: Array, request: Request, eps: float, found: list[Found], rough: bool) -> Found:
    """The best of the candidates and of what the optimiser makes of the first few."""
    problem = Problem(A, eps=eps, **_penalty(A, request))
    starts = [item.result for item in found[: _starts(A)] if np.isfinite(item.result.balanced_condition)]
    refined = (refine(problem, start, rough=rough) for start in starts)
    found = [*found, *(Found(result, "optimized", converged) for result, converged in refined)]
    return min(found, key=lambda item: request.sort_key(item.result))


def _good_condition(inverse_rel: float) -> float:
    """A condition number below which nothing else is worth trying: what rank-one reaches on HiPPO matrices, times 3."""
    return 3 * (1 + 0.5 * inverse_rel)


def _starts(A: Array) -> int:
    return _STARTS if len(A) < _LARGE else 1


def _penalty(A: Array, request: Request) -> dict[str, Any]:
    """What keeps the optimiser stable: a margin a little wider than asked for, at least half of A's own."""
    if request.margin is None:
        return {}
    own = -float(np.linalg.eigvals(A).real.max())
    return {"margin": max(1.02 * request.margin, 0.5 * own, 1e-6 * norm2(A)), "scale": max(abs(own), 1e-3 * norm2(A))}


def _solve_gamma(A: Array, request: Request, gamma: float, plain: Found) -> Found:
    """The minimiser of ``kappa^power + gamma ||E||``, from closed forms of several sizes."""
    shape = {"power": request.power, "norm": request.norm, "unit_columns": request.unit_columns}
    problem = Problem(A, gamma=gamma, **shape, **_penalty(A, request))
    size = norm2(A)
    starts = [c for rel in np.logspace(-6, 0, 13) for c in low_rank_candidates(A, size * rel, thorough=False)]
    starts = sorted((s for s in starts if np.isfinite(s.balanced_condition)), key=lambda start: value(problem, start))
    found = [Found(result, "optimized", done) for result, done in (refine(problem, s) for s in starts[: _starts(A)])]
    return min([plain, *found], key=lambda item: (not request.meets(item.result), value(problem, item.result)))


def _solve_cond(A: Array, request: Request, target: float) -> Found:
    """The smallest perturbation of the family whose condition number is the target.

    The optimiser, where it is needed, is in a hurry until the size is nearly known.
    """
    # On HiPPO matrices kappa is about 0.5 / rel (see _good_condition): a size to begin with.
    found, reached = _secants(A, request, target, min(0.3, 0.5 / target), rough=True)
    if found is None:
        raise ConvergenceError(_why_not_reached(request, reached))
    if found.method == "optimized":
        rough = found
        found, _ = _secants(A, request, target, norm2(rough.result.E) / norm2(A), rough=False)
        found = found or rough
    return found


def _secants(A: Array, request: Request, target: float, rel: float, *, rough: bool) -> tuple[Found | None, float]:
    """The smallest perturbation met that does it, by secants in log-log, bracketed; the smallest kappa met."""
    # kappa falls a little slower than 1 / ||E|| here: a slope to begin with, replaced by the first one measured.
    low, high, best, slope, reached = 0.0, 1.0, None, -0.85, np.inf
    last: tuple[float, float] | None = None
    for _ in range(_SECANTS if rough else _LAST_SECANTS):
        found = _perturb(A, request, norm2(A) * rel, rough=rough)
        kappa = found.result.scaling.condition if np.isfinite(found.result.balanced_condition) else np.inf
        if request.meets(found.result):
            reached = min(reached, kappa)
        if kappa <= target * _ROUNDING and request.meets(found.result):
            high, best = rel, found
            if kappa >= 0.99 * target:
                break
        else:
            low = rel
        if last is not None and np.isfinite(kappa) and rel != last[0]:
            slope = float(np.clip(np.log(kappa / last[1]) / np.log(rel / last[0]), -2, -0.3))
        last = (rel, kappa) if np.isfinite(kappa) else last
        # Aimed half a percent below the target: a hit is anything from 0.99 of it, and one above it is none.
        guess = rel * (0.995 * target / kappa) ** (1 / slope) if np.isfinite(kappa) else 0.0
        # Where the secant leaves the bracket, its geometric mean: sizes are spread over many powers of ten.
        rel = guess if low < guess < high else float(np.sqrt(max(low, 1e-16) * high))
        if high / max(low, 1e-300) < 1.001:
            break
    return best, reached


def _why_not_reached(request: Request, reached: float) -> str:
    failed = f"cond = {request.amount:g} is not reached by a perturbation smaller than A itself: "
    if not np.isfinite(reached):
        also = "" if request.tries_everything else ", or take method='optimized'"
        return failed + f"none had the spectrum asked for; relax stable, margin or real_eigenvalues{also}"
    also = "" if request.method == "optimized" else ", take method='optimized',"
    return failed + (
        f"the best found is {reached:.10g}; ask for a larger cond{also} or set the size of the perturbation (rel)"
    )
