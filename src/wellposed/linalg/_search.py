"""Which perturbation to take: closed forms first, the optimiser where they do not do."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from wellposed.errors import ConvergenceError
from wellposed.linalg._ask import Ask
from wellposed.linalg._eigen import Eigen, eigen
from wellposed.linalg._gaussian import gaussian
from wellposed.linalg._low_rank import low_rank_candidates
from wellposed.linalg._matrix import Array, norm2
from wellposed.linalg._optimized import Problem, refine, value

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


def search(A: Array, ask: Ask) -> Found:
    """The perturbation asked for; none where none is needed."""
    plain = Found(eigen(A, np.zeros_like(A)), "none")
    kappa, fits = plain.result.balanced, ask.pleases(plain.result)
    if (norm2(A) == 0 and ask.eps is None) or ask.eps == 0:
        return plain  # nothing to measure a perturbation by
    normal = kappa < 1 + 1e-6  # needs nothing, whoever asks
    if ask.gamma is not None:
        return plain if normal and fits else _solve_gamma(A, ask, ask.gamma, plain)
    enough = _WELL_CONDITIONED if ask.cond is None else ask.cond * _ROUNDING
    if (normal or ask.method == "auto") and kappa <= enough and fits:
        return plain
    if ask.cond is not None:
        return _solve_cond(A, ask, ask.cond)
    assert ask.eps is not None
    found = _perturb(A, ask, ask.eps)
    worth = np.isfinite(kappa) and kappa <= _WORTH * found.result.balanced
    return plain if ask.method == "auto" and worth and fits else found


def _perturb(A: Array, ask: Ask, eps: float, *, rough: bool = False) -> Found:
    """The method asked for, at a given size; ``rough`` lets the optimiser stop early."""
    found = _closed_forms(A, ask, eps)
    if ask.method == "optimized" or (ask.method == "auto" and not ask.pleases(found[0].result)):
        return _refined(A, ask, eps, found, rough)
    return found[0]


def _closed_forms(A: Array, ask: Ask, eps: float) -> list[Found]:
    """Candidates that need no optimiser, best first; smaller only where the spectrum asked for wants that."""
    if ask.method == "gaussian":
        return [Found(gaussian(A, eps, ask.seed, complex_valued=ask.complex_valued), "gaussian")]
    best = ask.choose(low_rank_candidates(A, eps))
    if not ask.pleases(best) or (ask.margin is not None and eps > _BEYOND * norm2(A)):
        smaller = (ask.choose(low_rank_candidates(A, factor * eps)) for factor in _SMALLER)
        best = min([best, *smaller], key=ask.key)
    found = [Found(best, "rank-one")]
    if ask.method != "rank-one" and (best.balanced > _good(norm2(A) / eps) or not ask.pleases(best)):
        wide = ask.choose(low_rank_candidates(A, eps, rank=None))
        found.append(Found(wide, f"rank-{np.linalg.matrix_rank(wide.E, tol=1e-8 * eps)}"))
        draws = (gaussian(A, eps, ask.seed + k, complex_valued=ask.complex_valued) for k in range(_DRAWS))
        found += [Found(draw, "gaussian") for draw in draws]
        found.sort(key=lambda item: ask.key(item.result))
    return found


def _refined(A: Array, ask: Ask, eps: float, found: list[Found], rough: bool) -> Found:
    """The best of the candidates and of what the optimiser makes of the first few."""
    problem = Problem(A, eps=eps, **_penalty(A, ask))
    starts = [item.result for item in found[: _starts(A)] if np.isfinite(item.result.balanced)]
    refined = (refine(problem, start, rough=rough) for start in starts)
    found = [*found, *(Found(result, "optimized", converged) for result, converged in refined)]
    return min(found, key=lambda item: ask.key(item.result))


def _good(inverse_rel: float) -> float:
    """A condition number below which nothing else is worth trying: what rank-one reaches on HiPPO matrices, times 3."""
    return 3 * (1 + 0.5 * inverse_rel)


def _starts(A: Array) -> int:
    return _STARTS if len(A) < _LARGE else 1


def _penalty(A: Array, ask: Ask) -> dict[str, Any]:
    """What keeps the optimiser stable: a margin a little wider than asked for, at least half of A's own."""
    if ask.margin is None:
        return {}
    own = -float(np.linalg.eigvals(A).real.max())
    return {"margin": max(1.02 * ask.margin, 0.5 * own, 1e-6 * norm2(A)), "scale": max(abs(own), 1e-3 * norm2(A))}


def _solve_gamma(A: Array, ask: Ask, gamma: float, plain: Found) -> Found:
    """The minimiser of ``kappa^power + gamma ||E||``, from closed forms of several sizes."""
    shape = {"power": ask.power, "norm": ask.norm, "unit_columns": ask.unit_columns}
    problem = Problem(A, gamma=gamma, **shape, **_penalty(A, ask))
    size = norm2(A)
    starts = [c for rel in np.logspace(-6, 0, 13) for c in low_rank_candidates(A, size * rel, thorough=False)]
    starts = sorted((s for s in starts if np.isfinite(s.balanced)), key=lambda start: value(problem, start))
    found = [Found(result, "optimized", done) for result, done in (refine(problem, s) for s in starts[: _starts(A)])]
    return min([plain, *found], key=lambda item: (not ask.pleases(item.result), value(problem, item.result)))


def _solve_cond(A: Array, ask: Ask, target: float) -> Found:
    """The smallest perturbation of the family whose condition number is the target.

    The optimiser, where it is needed, is in a hurry until the size is nearly known.
    """
    found, reached = _secants(A, ask, target, min(0.3, 0.5 / target), rough=True)
    if found is None:
        raise ConvergenceError(_why_not_reached(ask, reached))
    if found.method == "optimized":
        rough = found
        found, _ = _secants(A, ask, target, norm2(rough.result.E) / norm2(A), rough=False)
        found = found or rough
    return found


def _secants(A: Array, ask: Ask, target: float, rel: float, *, rough: bool) -> tuple[Found | None, float]:
    """The smallest perturbation met that does it, by secants in log-log, bracketed; the smallest kappa met."""
    low, high, best, slope, reached = 0.0, 1.0, None, -0.85, np.inf
    last: tuple[float, float] | None = None
    for _ in range(_SECANTS if rough else _LAST_SECANTS):
        found = _perturb(A, ask, norm2(A) * rel, rough=rough)
        kappa = found.result.scaling.condition if np.isfinite(found.result.balanced) else np.inf
        if ask.pleases(found.result):
            reached = min(reached, kappa)
        if kappa <= target * _ROUNDING and ask.pleases(found.result):
            high, best = rel, found
            if kappa >= 0.99 * target:
                break
        else:
            low = rel
        if last is not None and np.isfinite(kappa) and rel != last[0]:
            slope = float(np.clip(np.log(kappa / last[1]) / np.log(rel / last[0]), -2, -0.3))
        last = (rel, kappa) if np.isfinite(kappa) else last
        guess = rel * (0.995 * target / kappa) ** (1 / slope) if np.isfinite(kappa) else 0.0
        rel = guess if low < guess < high else float(np.sqrt(max(low, 1e-16) * high))
        if high / max(low, 1e-300) < 1.001:
            break
    return best, reached


def _why_not_reached(ask: Ask, reached: float) -> str:
    failed = f"cond = {ask.amount:g} is not reached by a perturbation smaller than A itself: "
    if not np.isfinite(reached):
        also = "" if ask.tries_everything else ", or take method='optimized'"
        return failed + f"none had the spectrum asked for; relax stable, margin or real_eigenvalues{also}"
    also = "" if ask.method == "optimized" else ", take method='optimized',"
    return failed + (
        f"the best found is {reached:.10g}; ask for a larger cond{also} or set the size of the perturbation (rel)"
    )
