"""How ill-conditioned a set of eigenvectors is, once their lengths no longer matter.

Over all diagonal D > 0, ``kappa(V D) = ||V D|| ||D^-1 V^-1||`` is log-convex in log D, so its infimum can be found; and
for any two positive semidefinite X, Y of trace 1,

    sum_j sqrt(v_j^* X v_j) sqrt(w_j Y w_j^*) <= inf_D kappa(V D),    v_j columns of V, w_j rows of V^-1,

so it can be certified: docs/devdocs/condition.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from wellposed.linalg._matrix import Array, norm2, svd


@dataclass(frozen=True)
class Scaling:
    """Column lengths ``d`` for which ``kappa(V diag(d))`` is ``condition``, and no lengths bring it below ``lower``."""

    d: Array
    condition: float
    lower: float


def optimal_scaling(V: Array, W: Array, *, rtol: float = 0.005) -> Scaling:
    """Column lengths that make ``kappa(V diag(d))`` as small as it gets, within ``rtol`` (``W`` is ``V^-1``)."""
    v = np.linalg.norm(V, axis=0)
    w = np.linalg.norm(W, axis=1)
    best = _evaluate(V, W, np.sqrt(w / v), 256.0)  # equal lengths of v_j and w_j: often optimal to several digits
    if best.condition <= best.lower * (1 + rtol):
        return best
    from scipy.optimize import minimize

    x = np.log(best.d)
    lower = best.lower
    for p in (8.0, 32.0, 128.0, 512.0):  # Schatten norms: smooth, and the spectral norm in the limit
        found: Any = minimize(
            lambda x, p=p: _smooth(V, W, x, p), x, jac=True, method="L-BFGS-B", options={"maxiter": 200, "maxcor": 20}
        )
        x = found.x
        now = _evaluate(V, W, np.exp(x), p)
        lower = max(lower, now.lower)
        best = now if now.condition < best.condition else best
        if best.condition <= lower * (1 + rtol):
            break
    return Scaling(best.d, best.condition, min(lower, best.condition))


def _smooth(V: Array, W: Array, x: Array, p: float) -> tuple[float, Array]:
    """log of the product of Schatten p-norms of ``V e^x`` and ``e^-x W``, and its gradient."""
    (a, value_a), (b, value_b) = _weights(V * np.exp(x), p), _weights((W.T * np.exp(-x)), p)
    return value_a + value_b, a - b


def _weights(M: Array, p: float) -> tuple[Array, float]:
    """Gradient of ``log ||M e^x||_p`` with respect to x (it sums to 1), and the value."""
    s, R = svd(M)[1:]
    t, excess = schatten_weights(s / s[0], p)
    return (np.abs(R) ** 2).T @ t, float(np.log(s[0]) + excess)


def schatten_weights(ratios: Array, p: float) -> tuple[Array, float]:
    """Weights of the singular values ``s_i = ratios_i max(s)`` in their Schatten p-norm, and log of it over max(s)."""
    t = ratios**p
    total = t.sum()
    return t / total, float(np.log(total) / p)


def _evaluate(V: Array, W: Array, d: Array, p: float) -> Scaling:
    # v_j^* X v_j d_j^2 is ||V D||^2 times the weight of column j, for X the density that the p-norm singles out.
    a, b = V * d, W.T / d
    top_a, top_b = norm2(a), norm2(b)
    lower = np.sqrt(_density(a, p) * _density(b, p)).sum()
    kappa = float(top_a * top_b)
    return Scaling(d, kappa, min(float(lower), kappa))


def _density(M: Array, p: float) -> Array:
    U, s, _ = svd(M)
    t, _ = schatten_weights(s / s[0], p)
    return (np.abs(U.conj().T @ M) ** 2 * t[:, None]).sum(axis=0)
