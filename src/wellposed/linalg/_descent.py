"""Conditional gradients: a dozen steps that take nearly any start most of the way.

Over the ball ``||E|| <= eps`` a linear function with gradient G is smallest at ``-eps P``, P the polar factor of G. So
each step moves a part of the way there, as in Frank and Wolfe (1956): every singular value of E is put to use at
once, where a step along G itself would serve only the largest. See docs/devdocs/auto.md.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from wellposed.linalg._eigen import Eigen, eigen
from wellposed.linalg._found import Clock
from wellposed.linalg._matrix import Array, norm2, singular_values, svd
from wellposed.linalg._optimized import Problem, smoothed_log_kappa
from wellposed.linalg._spectrum import schur

_EXPONENTS = (4.0, 16.0, 64.0)  # Schatten exponents of the thirds of a descent: all eigenvectors first, the worst last
_FLOW = 8  # steps towards the normal matrices


def descend(problem: Problem, start: Eigen, steps: int, clock: Clock) -> Iterator[Eigen]:
    """The places after every step; they are not in order of merit."""
    assert problem.eps is not None
    result = start
    for k in range(steps):
        if clock.over or not np.isfinite(result.balanced_condition):
            return
        weight = 2 / (k + 3)  # the classical step; the first one, 1 there, would forget the start
        try:
            result = _step(problem, result, _EXPONENTS[3 * k // steps], weight)
        except np.linalg.LinAlgError:  # no convergence, or not finite: what there is will do
            return
        yield result


def _step(problem: Problem, result: Eigen, p: float, weight: float) -> Eigen:
    assert problem.eps is not None
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        _, g, _ = smoothed_log_kappa(problem, result, _log_lengths(result), p)
    if not (np.isfinite(g).all() and g.any()):
        raise np.linalg.LinAlgError
    E = (1 - weight) * result.E - weight * problem.eps * polar_factor(g)
    return eigen(problem.A, problem.eps / norm2(E) * E)


def promise(problem: Problem, result: Eigen) -> float:
    """By how much ``log kappa`` could fall inside the ball, to first order: the gap of Frank and Wolfe."""
    assert problem.eps is not None
    if not np.isfinite(result.balanced_condition):
        return np.inf
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        _, g, _ = smoothed_log_kappa(problem, result, _log_lengths(result), _EXPONENTS[-1])
    if not np.isfinite(g).all():
        return np.inf
    nuclear = float(singular_values(g).sum())
    return float(np.real(np.vdot(g, result.E))) + problem.eps * nuclear


def towards_diagonal(A: Array, eps: float) -> Array:
    """Against the strictly upper part of the Schur form, with all singular values ``eps``."""
    T, Q = schur(A)
    E = -Q @ polar_factor(np.triu(T, 1)) @ Q.conj().T
    return of_size(E.real if np.isrealobj(A) else E, eps)


def towards_normal(A: Array, eps: float) -> Array:
    """Down the commutator ``||A A^* - A^* A||``, each step the polar factor of its gradient."""
    E = np.zeros_like(A)
    for _ in range(_FLOW):
        M = A + E
        C = M @ M.conj().T - M.conj().T @ M
        E = E - eps / _FLOW * polar_factor(C @ M - M @ C)
    return of_size(E, eps)


def polar_factor(M: Array) -> Array:
    """The unitary factor of the polar decomposition."""
    left, _, right = svd(M)
    return left @ right


def of_size(E: Array, eps: float) -> Array:
    """The same direction at this spectral norm; nothing where there is none."""
    size = norm2(E)
    return eps / size * E if size > 0 else E


def _log_lengths(result: Eigen) -> Array:
    return 0.5 * np.log(np.linalg.norm(result.W, axis=1))
