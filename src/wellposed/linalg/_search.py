"""Which perturbation to take: closed forms first, the optimiser where they do not do."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from wellposed.linalg._automatic import choose, improved, stable_problem
from wellposed.linalg._cond import has_condition, smallest_for_cond
from wellposed.linalg._eigen import Eigen, eigen
from wellposed.linalg._found import Clock, Found
from wellposed.linalg._gaussian import gaussian
from wellposed.linalg._low_rank import low_rank_candidates
from wellposed.linalg._matrix import Array, norm2
from wellposed.linalg._optimized import Problem, refine, value
from wellposed.linalg._request import Request
from wellposed.linalg._spectrum import eigenvalues

_WELL_CONDITIONED = 10.0  # below this nobody needs a perturbation
_WORTH = 1.2  # "auto" perturbs only where that lowers the condition number by this factor
_SMALLER = (0.7, 0.5, 0.35, 0.25)  # of the size asked for
_BEYOND = 0.25  # of ||A||: where more perturbation stops helping a stable spectrum
_DRAWS = 4  # random matrices tried where the closed form does not do well
_STARTS = 3  # places the optimiser starts from; one is enough for large matrices, whose minima are all alike
_LARGE = 64
_LARGE_CLOSED = 128  # beyond this a closed form that is good is not compared with others


def search(A: Array, request: Request, plain: Eigen, clock: Clock | None = None) -> Found:
    """The perturbation asked for; none where none is needed. ``plain`` is A itself, diagonalised."""
    clock = clock or Clock()
    none = Found(plain, "none")
    kappa, plain_meets = plain.balanced_condition, request.meets(plain)
    if (not A.any() and request.eps is None) or request.eps == 0:
        return none  # nothing to measure a perturbation by
    normal = kappa < 1 + 1e-6  # needs nothing, whoever asks
    if request.gamma is not None:
        return none if normal and plain_meets else _solve_gamma(A, request, request.gamma, none, clock)
    if request.cond is not None:  # the smallest perturbation that does is none at all, whichever method is named
        enough = plain_meets and has_condition(plain, request.cond)
        return none if enough else smallest_for_cond(A, request, request.cond, _closed_forms, _perturb, clock)
    if (normal or request.method == "auto") and kappa <= _WELL_CONDITIONED and plain_meets:
        return none
    assert request.eps is not None  # of the four knobs, rel and eps are left
    found = _perturb(A, request, request.eps, clock)
    if request.method == "optimized" and request.margin is None and not clock.over:
        # Minima are local, and those found among stable matrices are sometimes the better ones.
        kept = dataclasses.replace(request, keep=True).keeping(plain, norm2(A))
        others = [] if kept.margin is None else [_perturb(A, kept, request.eps, clock)]
        found = min([found, *others], key=lambda item: request.sort_key(item.result))
    worth = np.isfinite(kappa) and kappa <= _WORTH * found.result.balanced_condition
    return none if request.method == "auto" and worth and plain_meets else found


def _perturb(A: Array, request: Request, eps: float, clock: Clock | None = None, *, rough: bool = False) -> Found:
    """The method asked for, at a given size; ``rough`` lets the optimiser stop early."""
    clock = clock or Clock()
    closed = _closed_forms(A, request, eps, clock)
    if request.method in ("rank-one", "gaussian"):
        return closed[0]
    others = _others(A, request, eps, closed, clock, hurry=rough)
    if np.iscomplexobj(A) and not A.imag.any():  # a real E is a complex one too, and often the better start
        real = _perturb(A.real, request.over_reals(), eps, clock, rough=rough)
        others.append(real._replace(result=eigen(A, real.result.E.astype(complex))))
    if request.method == "auto":
        return choose(A, request, closed, others)
    return _refined(A, request, eps, [*others, *closed], clock, rough)


def _others(A: Array, request: Request, eps: float, closed: list[Found], clock: Clock, *, hurry: bool) -> list[Found]:
    """What descends from several starts; smaller closed forms where none of it has the spectrum asked for."""
    good = closed[0].result.balanced_condition <= _good_condition(norm2(A) / eps) and request.meets(closed[0].result)
    if (good and len(A) > _LARGE_CLOSED) or clock.over:
        return []
    found = improved(A, request, eps, closed, clock, hurry=hurry)
    if found and not any(request.meets(item.result) for item in (*found, *closed)):
        found += [Found(result, "rank-one") for result in _smaller(A, request, eps)]
    return found


def _closed_forms(A: Array, request: Request, eps: float, clock: Clock) -> list[Found]:
    """Candidates that need no optimiser, best first; smaller only where the spectrum asked for wants that."""
    if request.method == "gaussian":
        return [_draw(A, request, eps, request.seed)]
    inverse_rel = norm2(A) / eps
    limit = _good_condition(inverse_rel)
    # Far from good at a large matrix: other places on the same rays are not worth their decompositions.
    best = request.choose(low_rank_candidates(A, eps, give_up=3 * limit if len(A) > _LARGE_CLOSED else None))
    clock.tell("rank-one", best)
    near = best.balanced_condition <= 3 * limit
    if (near or request.method == "rank-one") and (
        not request.meets(best) or (request.margin is not None and _BEYOND * inverse_rel < 1)
    ):
        best = min([best, *_smaller(A, request, eps)], key=request.sort_key)
    found = [Found(best, "rank-one")]
    good = best.balanced_condition <= limit and request.meets(best)
    if request.method != "rank-one" and not good and len(A) <= _LARGE_CLOSED:
        higher = request.choose(low_rank_candidates(A, eps, rank=None))
        found.append(Found(higher, f"rank-{np.linalg.matrix_rank(higher.E, tol=1e-8 * eps)}"))
        found += [_draw(A, request, eps, request.seed + k) for k in range(_DRAWS)]
        found.sort(key=lambda item: request.sort_key(item.result))
    return found


def _draw(A: Array, request: Request, eps: float, seed: int) -> Found:
    return Found(gaussian(A, eps, seed, complex_valued=request.complex_valued), "gaussian", start=f"seed {seed}")


def _smaller(A: Array, request: Request, eps: float) -> list[Eigen]:
    return [request.choose(low_rank_candidates(A, factor * eps)) for factor in _SMALLER]


def _refined(A: Array, request: Request, eps: float, found: list[Found], clock: Clock, rough: bool) -> Found:
    """The best of the candidates and of what the optimiser makes of the first few.

    What is to be kept is asked for only where it would be lost: a penalty moves a minimum that needs none.
    """
    found = sorted(found, key=lambda item: request.sort_key(item.result))
    starts = [item for item in found[: _starts(A)] if np.isfinite(item.result.balanced_condition)]
    penalised = Problem(A, eps=eps, **_penalty(A, request))
    for problem in (Problem(A, eps=eps), penalised) if request.keep else (penalised,):
        for item in starts:
            if not clock.over:
                # Where a descent was needed, its milder penalty is.
                own = stable_problem(A, request, eps) if item.method == "optimized" and problem.margin else problem
                result, converged = refine(own, item.result, rough=rough, clock=clock)
                found.append(Found(result, "optimized", converged, item.start or item.method))
        found.sort(key=lambda item: request.sort_key(item.result))
        if request.meets(found[0].result) and not any(found[0] is item for item in starts):
            break
    return found[0]


def _good_condition(inverse_rel: float) -> float:
    """A condition number below which nothing else is worth trying: what rank-one reaches on HiPPO matrices, times 3."""
    return 3 * (1 + 0.5 * inverse_rel)


def _starts(A: Array) -> int:
    return _STARTS if len(A) < _LARGE else 1


def _penalty(A: Array, request: Request) -> dict[str, Any]:
    """What keeps the optimiser stable: a margin a little wider than asked for, at least half of A's own."""
    if request.margin is None:
        return {}
    own = -float(eigenvalues(A).real.max())
    return {"margin": max(1.02 * request.margin, 0.5 * own, 1e-6 * norm2(A)), "scale": max(abs(own), 1e-3 * norm2(A))}


def _solve_gamma(A: Array, request: Request, gamma: float, plain: Found, clock: Clock) -> Found:
    """The minimiser of ``kappa^power + gamma ||E||``, from closed forms of several sizes."""
    if request.keep:  # first without asking for it: a penalty moves a minimum that needs none
        free = _solve_gamma(A, dataclasses.replace(request, keep=False, margin=None), gamma, plain, clock)
        if request.meets(free.result) or clock.over:
            return free
        request = dataclasses.replace(request, keep=False)
    shape = {"power": request.power, "norm": request.norm, "unit_columns": request.unit_columns}
    problem = Problem(A, gamma=gamma, **shape, **_penalty(A, request))
    name, starts = _starts_for_gamma(A, request)
    starts.sort(key=lambda start: value(problem, start))
    refined = (refine(problem, s, clock=clock) for s in starts[: _starts(A)])
    found = [Found(result, "optimized", done, name) for result, done in refined]
    return min([plain, *found], key=lambda item: (not request.meets(item.result), value(problem, item.result)))


def _starts_for_gamma(A: Array, request: Request) -> tuple[str, list[Eigen]]:
    """Closed forms of sizes from 1e-6 to 1; random ones where these stay defective, as with two equal Jordan blocks."""
    sizes = norm2(A) * np.logspace(-6, 0, 13)
    tried = (c for eps in sizes for c in low_rank_candidates(A, eps, thorough=False))
    if found := [c for c in tried if np.isfinite(c.balanced_condition)]:
        return "rank-one", found
    drawn = (_draw(A, request, eps, request.seed).result for eps in sizes)
    return f"gaussian, seed {request.seed}", [c for c in drawn if np.isfinite(c.balanced_condition)]
