"""The rightmost point of a pseudospectrum, by the criss-cross algorithm.

J. V. Burke, A. S. Lewis, M. L. Overton. Robust stability and a criss-cross algorithm for pseudospectra. IMA Journal of
Numerical Analysis 23, 2003. Every component of a pseudospectrum holds an eigenvalue, so one that reaches beyond a
vertical line right of the spectrum crosses it; and the line meets the boundary at imaginary eigenvalues of a
Hamiltonian matrix. docs/devdocs/pseudospectra.md#the-abscissa
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wellposed.linalg._matrix import Array, norm2
from wellposed.linalg._spectrum import eigenvalues

_ULP = float(np.finfo(float).eps)


def pseudospectral_abscissa(T: Array, eps: float) -> float:
    """Largest ``Re z`` with ``sigma_min(T - zI) <= eps``; ``T`` is triangular and of norm about 1."""
    reach = norm2(T) + eps  # the pseudospectrum lies in the disc of this radius
    rightmost = max(T.diagonal().tolist(), key=lambda eigenvalue: eigenvalue.real)
    if eps <= _ULP * reach:
        return rightmost.real  # T has a backward error of this size itself
    x, lines = -np.inf, np.array([rightmost.imag])
    best = rightmost.real
    while best > x + 1e-13 * reach:
        x = best
        for y in lines:  # best grows while the loop runs: later lines start farther right, or are skipped
            if _sigma(T, complex(best, y)) < eps:
                best = _boundary(T, complex(best, y), eps, 2 * reach)
        lines = _midpoints(T, best, eps, reach)
    return best


def _sigma(T: Array, z: complex) -> float:
    return float(np.linalg.svd(T - z * np.eye(len(T)), compute_uv=False)[-1])


def _boundary(T: Array, z: complex, eps: float, far: float) -> float:
    """Real part of a boundary point on the horizontal line to the right of ``z``, a point inside."""
    from scipy.optimize import brentq

    root: Any = brentq(lambda x: _sigma(T, complex(x, z.imag)) - eps, z.real, far, xtol=1e-15 * far)
    return float(root)


def _midpoints(T: Array, x: float, eps: float, reach: float) -> Array:
    """Midpoints of the intervals into which the boundary cuts the vertical line through ``x``.

    ``eps`` is a singular value of ``T - (x + iy)I`` exactly if ``iy`` is an eigenvalue of the Hamiltonian matrix. Of
    the computed ones all that may be imaginary are taken, one too many does no harm: double ones (where the line
    touches the boundary) move by the root of an ulp, those of a flat sigma by the inverse of its slope.
    """
    n = len(T)
    shifted, coupling = T - x * np.eye(n), eps * np.eye(n)
    found = eigenvalues(np.block([[-shifted.conj().T, coupling], [-coupling, shifted]]))
    near = reach * max(10 * _ULP**0.5, 1e3 * _ULP * reach / eps)
    y = np.sort(found.imag[np.abs(found.real) <= near])
    return (y[1:] + y[:-1]) / 2
