"""Which perturbation to take: closed forms first, the optimiser where they do not do."""

from __future__ import annotations

from typing import Any

import numpy as np

from wellposed.linalg._cond import smallest_for_cond
from wellposed.linalg._eigen import eigen
from wellposed.linalg._found import ROUNDING, Found
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
_STARTS = 3  # places the optimiser starts from; one is enough for large matrices, whose minima are all alike
_LARGE = 64


def search(A: Array, request: Request) -> Found:
    """The perturbation asked for; none where none is needed."""
    plain = Found(eigen(A, np.zeros_like(A)), "none")
    kappa, plain_meets = plain.result.balanced_condition, request.meets(plain.result)
    if (norm2(A) == 0 and request.eps is None) or request.eps == 0:
        return plain  # nothing to measure a perturbation by
    normal = kappa < 1 + 1e-6  # needs nothing, whoever asks
    if request.gamma is not None:
        return plain if normal and plain_meets else _solve_gamma(A, request, request.gamma, plain)
    enough = _WELL_CONDITIONED if request.cond is None else request.cond * ROUNDING
    if (normal or request.method == "auto") and kappa <= enough and plain_meets:
        return plain
    if request.cond is not None:
        return smallest_for_cond(A, request, request.cond, _closed_forms, _perturb)
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
    if np.iscomplexobj(A) and not A.imag.any():  # a real E is a complex one too, and often the better start
        real = _refined(A.real, request, eps, _closed_forms(A.real, request.over_reals(), eps), rough)
        found.append(real._replace(result=eigen(A, real.result.E.astype(complex))))
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
