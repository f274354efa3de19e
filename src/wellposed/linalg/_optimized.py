"""Refining a perturbation by L-BFGS on E itself, with the exact gradient through the eigenvectors.

With unit eigenvectors V, ``dV = V (F o (V^-1 dE V))`` up to lengths and ``F_ij = 1 / (lam_j - lam_i)``; so a
gradient with respect to V, its parts along the columns removed, pulls back to
``V^-* (conj(F) o (V^* g_V)) V^*``. kappa is smoothed by Schatten norms: docs/devdocs/optimized.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from wellposed.linalg._condition import schatten_weights
from wellposed.linalg._eigen import Eigen, eigen
from wellposed.linalg._found import Clock
from wellposed.linalg._matrix import Array, norm2, svd

# Schatten exponents, the second close enough to the spectral norm for the digits asked for, and when to stop
_STAGES = ((32.0, 1e-7), (256.0, 1e-10))
_ROUGH = ((32.0, 1e-4),)
# At a fixed size: kappa is flat near its minimum, and n singular values of E that are nearly equal still cost
# log(n)/p. Exponents rise by small factors, after larger ones line searches fail. The last stage stands on a kink, and
# is not asked to converge.
_SIZED = ((32.0, 1e-8), (128.0, 1e-9), (512.0, 1e-10), (2048.0, 1e-12))
STEADY = ((32.0, 1e-7),)
"""Stages for minima that a penalty hems in: steps are small there long before the end."""


@dataclass(frozen=True)
class Problem:
    """What to minimise: ``kappa`` at fixed ``||E|| = eps``, or ``kappa^power + gamma ||E||``."""

    A: Array
    eps: float | None = None
    gamma: float | None = None
    power: int = 1
    norm: str = "fro"
    unit_columns: bool = False
    """Whether kappa is that of unit columns, as in the paper's tables, or the infimum over their lengths."""
    margin: float | None = None
    """Real parts above ``-margin`` are penalised ..."""
    scale: float = 0.0
    """... in units of this, the distance at which the real parts of A live."""

    @property
    def real(self) -> bool:
        """Whether E is kept real."""
        return np.isrealobj(self.A)


def refine(
    problem: Problem,
    start: Eigen,
    *,
    rough: bool = False,
    stages: tuple[tuple[float, float], ...] | None = None,
    evaluations: int = 15000,
    clock: Clock | None = None,
) -> tuple[Eigen, bool]:
    """The minimiser reached from ``start``, and whether the iteration converged; to a few percent if ``rough``.

    ``stages``: others than these two choices.
    """
    from scipy.optimize import minimize

    def check_time(_: Array) -> None:
        if clock is not None:
            clock.tell("optimising")
            if clock.over:
                raise StopIteration

    n = len(problem.A)
    x = np.concatenate([_pack(start.E, problem.real), np.log(np.sqrt(np.linalg.norm(start.W, axis=1)))])
    scale = max(norm2(start.E), 1e-300)
    x[:-n] /= scale  # entries about as large as the log lengths beside them, which L-BFGS takes alike
    converged = False
    usual = stages or (_ROUGH if rough else _STAGES if problem.eps is None else _SIZED)
    # A penalty bends the valley, and as rounding has it line searches give up there: then once more from that place.
    again = usual[1:] if usual is _SIZED and problem.margin is not None else ()
    for k, (p, ftol) in enumerate((*usual, *again)):
        if k == len(usual) and converged:
            break
        if clock is not None and clock.over:
            converged = False
            break
        options = {"maxiter": 500, "maxcor": 30, "ftol": ftol, "maxfun": evaluations}
        found: Any = minimize(
            _objective(problem, p, scale), x, jac=True, method="L-BFGS-B", options=options, callback=check_time
        )
        # At a kink of kappa the line search gives up with the gradient at rest but for rounding: a minimum too.
        at_rest = bool(found.success) or bool(np.abs(found.jac).max() < 1e-3)
        x, converged = found.x, at_rest or (converged and p == _SIZED[-1][0])
    E = scale * _unpack(x[:-n], n, problem.real)
    if not (np.isfinite(E).all() and E.any()):
        return start, False
    if problem.eps is not None:
        E = problem.eps / norm2(E) * E  # the size is exact in the end: until here it was that of a Schatten norm
    return eigen(problem.A, E), converged


def value(problem: Problem, result: Eigen) -> float:
    """The objective itself, without smoothing: smaller is better."""
    if not np.isfinite(result.balanced_condition):
        return np.inf
    kappa = float(np.linalg.cond(result.V)) if problem.unit_columns else result.balanced_condition
    if problem.gamma is None:
        return kappa
    return kappa**problem.power + problem.gamma * float(np.linalg.norm(result.E, "fro" if problem.norm == "fro" else 2))


def _pack(E: Array, real: bool) -> Array:
    return E.real.ravel().copy() if real else np.concatenate([E.real.ravel(), E.imag.ravel()])


def _unpack(x: Array, n: int, real: bool) -> Array:
    return x.reshape(n, n) if real else x[: n * n].reshape(n, n) + 1j * x[n * n :].reshape(n, n)


def _objective(problem: Problem, p: float, scale: float) -> Callable[[Array], tuple[float, Array]]:
    """Value and gradient at ``x``; where a line search strays beyond floats, a value that it will not keep."""

    def evaluate(x: Array) -> tuple[float, Array]:
        try:
            with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
                f, gradient = _smoothed(problem, x, p, scale)
        except (np.linalg.LinAlgError, ZeroDivisionError):
            f, gradient = np.inf, np.zeros_like(x)
        return (f, gradient) if np.isfinite(f) and np.isfinite(gradient).all() else (1e10, np.zeros_like(x))

    return evaluate


def _smoothed(problem: Problem, x: Array, p: float, scale: float) -> tuple[float, Array]:
    """The logarithm of the objective, with Schatten norms for spectral ones, and its gradient."""
    n, real = len(problem.A), problem.real
    X, log_d = _unpack(x[:-n], n, real), x[-n:]
    size, size_gradient = _schatten(X, 2.0 if problem.gamma is not None and problem.norm == "fro" else p)
    factor = scale if problem.eps is None else problem.eps / size
    log_kappa, g_E, g_d = _log_kappa(problem, factor * X, log_d, p)
    if problem.gamma is None:
        f = log_kappa
        g_X = factor * (g_E - np.real(np.vdot(g_E, X)) / size * size_gradient)
    else:
        powered = np.exp(problem.power * log_kappa)
        total = powered + problem.gamma * scale * size
        inside = bool(np.isfinite(total))  # far from stable the penalty alone is beyond floats
        f = float(np.log(total)) if inside else problem.power * log_kappa
        weight = problem.power * powered / total if inside else problem.power
        g_X = scale * (weight * g_E + problem.gamma / total * size_gradient)
        g_d = weight * g_d
    if problem.unit_columns:
        g_d = np.zeros(n)
    return f, np.concatenate([_pack(g_X, real), g_d])


def _schatten(X: Array, p: float) -> tuple[float, Array]:
    """Schatten p-norm and its gradient, 0 at 0."""
    size = float(np.linalg.norm(X))
    if size == 0:
        return 0.0, np.zeros_like(X)
    if p == 2:
        return size, X / size
    U, s, Vh = svd(X)
    t = s / s[0]
    total = (t**p).sum()
    size = s[0] * total ** (1 / p)
    return float(size), (U * (t ** (p - 1) / total * (size / s[0]))) @ Vh  # X of low rank has s = 0


def _log_kappa(problem: Problem, E: Array, log_d: Array, p: float) -> tuple[float, Array, Array]:
    """Smoothed log kappa (and the penalty for instability) with gradients in E and in the log column lengths."""
    return smoothed_log_kappa(problem, eigen(problem.A, E), log_d, p)


def smoothed_log_kappa(problem: Problem, result: Eigen, log_d: Array, p: float) -> tuple[float, Array, Array]:
    """The same of a matrix that has been diagonalised."""
    lam, V, W = result.lam, result.V, result.W
    if not np.isfinite(W).all():
        raise np.linalg.LinAlgError
    d = np.ones_like(log_d) if problem.unit_columns else np.exp(log_d)
    U, s, Rh = svd(V * d)
    (a, above), (b, below) = schatten_weights(s / s[0], p), schatten_weights(s[-1] / s, p)
    value = float(np.log(s[0] / s[-1]) + (above + below))
    g_VD = (U * ((a - b) / s)) @ Rh
    g_V = g_VD * d
    g_d = np.real(np.sum(g_V.conj() * V, axis=0))
    g_V = g_V - V * np.sum(V.conj() * g_V, axis=0)  # columns keep length 1: what points along them has no effect
    difference = lam - lam[:, None]
    equal = difference == 0  # the diagonal, and eigenvalues that coincide: no direction is better than another there
    F = np.where(equal, 0, 1 / np.where(equal, 1, difference))
    g_E = W.conj().T @ (F.conj() * (V.conj().T @ g_V)) @ V.conj().T
    if problem.margin is not None:
        unit = max(problem.margin, problem.scale, 1e-300)
        excess = np.maximum(0, (lam.real + problem.margin) / unit)
        # A weight of 10 on a logarithm: a mode that is off by one unit costs as much as a kappa larger by e^10.
        value += 10 * float((excess**2).sum())
        g_E = g_E + W.conj().T @ (20 * excess / unit * V).conj().T
    return value, g_E.real if problem.real else g_E, g_d
