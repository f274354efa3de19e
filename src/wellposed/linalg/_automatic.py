"""What ``auto`` does where the closed form leaves something to gain: several starts, conditional gradients, L-BFGS.

How much is tried depends on n alone, never on a clock, so that the same call gives the same numbers:
docs/devdocs/auto.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from wellposed.linalg._descent import descend, of_size, promise, towards_diagonal, towards_normal
from wellposed.linalg._eigen import Eigen, eigen
from wellposed.linalg._found import Clock, Found
from wellposed.linalg._gaussian import gaussian
from wellposed.linalg._low_rank import low_rank_candidates
from wellposed.linalg._matrix import Array, norm2
from wellposed.linalg._optimized import STEADY, Problem, refine
from wellposed.linalg._request import Request
from wellposed.linalg._spectrum import eigenvalues

_PROMISE = np.log(1.3)  # what must be in reach, to first order, to go on where the closed form is good
WORTH = 1.27
"""The closed form is kept unless kappa or the size falls by this factor: its transfer functions are far better."""
_SURE = 1.2
"""Up to this factor it is kept at a look: descents end a few per cent above the minimum, and 1.3 is promised."""
_WORTH_IF_SMALL, _SMALL_SIZE = 1.2, 0.02
"""Below this share of the norm every transfer function is close, and a smaller factor does."""
_SHIFTED = 0.999  # of the budget, spent on moving the spectrum to the left: a start that is stable wherever one is
_UNIT = 1.0  # of eps: how far right an eigenvalue counts as much as a kappa larger by e^10 ...
_MARGIN = 0.02  # ... and how far left of the axis it is asked to stay, as a penalty stops a little short of its goal
_NEAR = 0.1  # of eps: what is unstable by less than this may be shifted
_LEFT = tuple(10.0**-k for k in range(3, 14))  # of eps: what is not spent on moving to the left where nothing else did
_SMALL = 64  # n up to which all of them are tried
_LAST_EVALUATIONS = 150  # spent on making the most of that


class Effort(NamedTuple):
    """How many starts descend, in how many steps, and how many of the best are refined with how many evaluations."""

    starts: int
    steps: int
    refined: int
    evaluations: int


# One step costs about three eigendecompositions. On one core everything up to n = 64 stays below two seconds,
# and large matrices below a few tens of decompositions.
_EFFORT = {32: Effort(6, 12, 3, 80), 64: Effort(4, 12, 2, 60), 128: Effort(3, 12, 1, 30), 255: Effort(2, 10, 0, 0)}
_LEAST = Effort(1, 8, 0, 0)
# Where stability hems in: up to which n how many random matrices are looked at, and how many evaluations are spent.
_RANDOM = ((16, 96, 300), (32, 48, 150), (64, 24, 40))
_SIZES = (1.0, 0.5, 0.2)  # of eps
_FEW = 3
_HURRY = Effort(1, 8, 0, 0)  # for searches that ask at many sizes


def improved(A: Array, request: Request, eps: float, closed: list[Found], clock: Clock, *, hurry: bool) -> list[Found]:
    """Candidates that may beat the closed forms, best first; none where these are as good as it gets."""
    problem = stable_problem(A, request, eps)
    if as_good_as_it_gets(problem, request, closed[0].result):
        return []
    effort = _HURRY if hurry else _effort_for(len(A))
    found = []
    for start in _starts(problem, request, closed, effort):
        if clock.over:
            break
        name = start.start or start.method
        clock.tell(f"descending from {name}", start.result)
        places = [start.result, *descend(problem, start.result, effort.steps, clock)]
        found.append(Found(min(places, key=lambda place: _merit(request, place, eps)), "optimized", True, name))
    found.sort(key=lambda item: _merit(request, item.result, eps))
    for item in found[: effort.refined]:
        if not clock.over:
            result, _ = refine(problem, item.result, rough=True, evaluations=effort.evaluations, clock=clock)
            found.append(item._replace(result=result))
    if effort.refined and not request.stable(closed[0].result):
        found += _hemmed_in(problem, request, found, clock)
    found += [item._replace(result=moved) for item in found for moved in _moved_left(problem, request, item.result)]
    if not hurry and not any(request.stable(item.result) for item in (*closed, *found)):
        found += _last_resort(problem, request, clock, refined=effort.refined > 0)
    found.sort(key=lambda item: request.sort_key(item.result))
    if effort.refined and found and _is_in_doubt(problem, request, closed, found[0]) and not clock.over:
        result, _ = refine(problem, found[0].result, stages=STEADY, evaluations=_LAST_EVALUATIONS, clock=clock)
        found.append(found[0]._replace(result=result))
    return sorted(found, key=lambda item: request.sort_key(item.result))


def _is_in_doubt(problem: Problem, request: Request, closed: list[Found], best: Found) -> bool:
    """Whether a closed form would be kept whose distance from the minimum is not known well enough for the promise."""
    kept = (item.result.balanced_condition for item in closed if request.meets(item.result))
    limit = _worth(problem.A, best)
    return request.meets(best.result) and any(_SURE < kappa / best.result.balanced_condition <= limit for kappa in kept)


def _hemmed_in(problem: Problem, request: Request, found: list[Found], clock: Clock) -> list[Found]:
    """Minima where the closed form is unstable: from random neighbours that are not, and a penalty that bends more."""
    assert problem.eps is not None
    assert request.margin is not None
    count, evaluations = next(((c, e) for size, c, e in _RANDOM if len(problem.A) <= size), (0, 0))
    wide = replace(problem, margin=1.02 * request.margin + 0.3 * problem.eps, scale=10 * problem.eps)
    best = sorted(found, key=lambda item: _merit(request, item.result, problem.eps or 1.0))[:1]
    starts = [*best, *_stable_draws(problem, request, count)[:_FEW]]
    refined = []
    for item in starts if evaluations else []:
        if not clock.over:
            clock.tell(f"optimising from {item.start}", item.result)
            result, _ = refine(wide, item.result, stages=STEADY, evaluations=evaluations, clock=clock)
            refined.append(Found(result, "optimized", True, item.start))
    return refined


def _stable_draws(problem: Problem, request: Request, count: int) -> list[Found]:
    """Of so many random perturbations the stable ones, best first: of rank one and of full rank, in three sizes."""
    A, n = problem.A, len(problem.A)
    assert problem.eps is not None
    rng = np.random.default_rng(request.seed)
    stable = []
    for k in range(count):
        G = _gaussians(rng, (n, n), A) if k % 3 else np.outer(_gaussians(rng, (n,), A), _gaussians(rng, (n,), A))
        E = _SIZES[k // 3 % 3] * problem.eps / norm2(G) * G
        if eigenvalues(A + E).real.max() < 0:
            stable.append(eigen(A, E))
    stable = [item for item in stable if np.isfinite(item.balanced_condition)]
    stable.sort(key=lambda item: item.balanced_condition)
    return [Found(item, "optimized", start=f"a random stable neighbour, seed {request.seed}") for item in stable]


def _gaussians(rng: np.random.Generator, shape: tuple[int, ...], A: Array) -> Array:
    real = rng.standard_normal(shape)
    return real + 1j * rng.standard_normal(shape) if np.iscomplexobj(A) else real


def stable_problem(A: Array, request: Request, eps: float) -> Problem:
    """Minimising kappa at a size; with a penalty in units of the size, where stability is asked for."""
    if request.margin is None:
        return Problem(A, eps=eps)
    return Problem(A, eps=eps, margin=1.02 * request.margin + _MARGIN * eps, scale=_UNIT * eps)


def as_good_as_it_gets(problem: Problem, request: Request, result: Eigen) -> bool:
    """Whether there is little to gain on a closed form, to first order."""
    assert problem.eps is not None
    size = norm2(result.E)
    # About what rank-one reaches on HiPPO matrices; beyond, a small promise may mean a place between two valleys.
    if not (size > 0.99 * problem.eps and result.balanced_condition <= 1 + 0.3 * norm2(problem.A) / size):
        return False
    return request.meets(result) and bool(promise(Problem(problem.A, eps=problem.eps), result) <= _PROMISE)


def _merit(request: Request, result: Eigen, eps: float) -> float:
    """What orders unfinished places: kappa, and how far they are from stable."""
    excess = 0.0 if request.margin is None else max(0.0, result.abscissa + request.margin) / eps
    return float(np.log(result.balanced_condition)) + 10 * excess


def _moved_left(problem: Problem, request: Request, result: Eigen) -> Iterator[Eigen]:
    """The same perturbation moved to the left by what it lacks, where that is little."""
    eps, E = problem.eps, result.E
    if request.margin is None or eps is None or request.meets(result) or result.abscissa > _NEAR * eps:
        return
    for extra in (1.2, 2.0, 4.0):
        move = extra * (max(result.abscissa, 0.0) + request.margin + 1e-3 * eps)
        shifted = E - move * np.eye(len(E))
        moved = eigen(problem.A, eps / norm2(shifted) * shifted)
        yield moved
        if request.meets(moved):
            return


def _last_resort(problem: Problem, request: Request, clock: Clock, *, refined: bool) -> list[Found]:
    """Nearly all of the budget to move the spectrum left, and as much of the closed form as that leaves room for."""
    eps, eye = problem.eps, np.eye(len(problem.A))
    assert eps is not None
    found = []
    for share in _LEFT if len(eye) <= _SMALL else _LEFT[::4]:  # large matrices: their decompositions are dear
        small = (c.E for c in low_rank_candidates(problem.A, share * eps, thorough=False))
        moved = min((eigen(problem.A, of_size(E - (1 - share) * eps * eye, eps)) for E in small), key=request.sort_key)
        if request.stable(moved):
            found.append(moved)
            break
    if found and refined and not clock.over:
        found.append(refine(problem, found[0], stages=STEADY, evaluations=_LAST_EVALUATIONS, clock=clock)[0])
        found += _moved_left(problem, request, found[-1])
    return [Found(result, "optimized", True, "a shift to the left") for result in found]


def choose(A: Array, request: Request, closed: list[Found], others: list[Found]) -> Found:
    """The best; a closed form, where it comes close. Where none will do, what comes closest to it."""
    best = min([*closed, *others], key=lambda item: request.sort_key(item.result))
    if not request.meets(best.result):
        return min([*closed, *others], key=lambda item: item.result.abscissa)
    plain = [item for item in closed if request.meets(item.result)]
    limit = _worth(A, best) * best.result.balanced_condition
    return next((item for item in plain if item.result.balanced_condition <= limit), best)


def _worth(A: Array, best: Found) -> float:
    """By which factor the best must be better than a closed form."""
    return _WORTH_IF_SMALL if norm2(best.result.E) < _SMALL_SIZE * norm2(A) else WORTH


def _effort_for(n: int) -> Effort:
    """What a matrix of this size is worth."""
    return next((effort for size, effort in _EFFORT.items() if n <= size), _LEAST)


def _starts(problem: Problem, request: Request, closed: list[Found], effort: Effort) -> Iterator[Found]:
    """Places to descend from, those that did best in trials first."""
    count = 0
    for start in _all_starts(problem, request, closed):
        if np.isfinite(start.result.balanced_condition):
            yield start
            count += 1
        if count == effort.starts:
            return


def _all_starts(problem: Problem, request: Request, closed: list[Found]) -> Iterator[Found]:
    A, eps = problem.A, problem.eps
    assert eps is not None
    best = closed[0]
    yield best
    if request.margin is not None:
        E = best.result.E
        E = (1 - _SHIFTED) * eps / (norm2(E) or 1.0) * E - _SHIFTED * eps * np.eye(len(A))
        yield Found(eigen(A, E), "optimized", start="a shift to the left")
    yield Found(eigen(A, towards_diagonal(A, eps)), "optimized", start="the diagonal of the Schur form")
    draw = gaussian(A, eps, request.seed, complex_valued=request.complex_valued)
    yield Found(draw, "gaussian", start=f"gaussian, seed {request.seed}")
    yield Found(eigen(A, towards_normal(A, eps)), "optimized", start="a flow to normal matrices")
    yield from (item for item in closed[1:] if item.method != "gaussian")
