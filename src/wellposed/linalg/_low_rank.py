"""The closed form: a perturbation of rank one (or as many as needed) from a singular pair of A - zI.

Inside the pseudospectrum ``A - zI`` has a singular value far below ``eps``, with vectors u and v. Adding ``eps u v^*``
lifts it to ``eps``, and the eigenvalues move out to a level curve of the resolvent, where their eigenvectors are
nearly as independent as any perturbation of that size can make them. How deep inside to put z hardly matters; where
sigma_min is about ``eps / 20`` is near best for HiPPO matrices, deeper for Jordan blocks: docs/devdocs/rank-one.md.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from wellposed.linalg._eigen import Eigen, eigen
from wellposed.linalg._matrix import Array, norm2, singular_values, svd

_LEVEL = 0.05  # of eps: sigma_min where z is put
_DEPTHS = (0.6, 0.0, 1.5)  # other places on the ray from the centre (0) to the boundary (1)


def low_rank_candidates(
    A: Array, eps: float, *, rank: int | None = 1, thorough: bool = True, give_up: float | None = None
) -> Iterator[Eigen]:
    """Diagonalisations of ``A + E`` with ``||E|| = eps`` and E of low rank, best places first.

    ``rank=None`` takes as many singular pairs as lie far below ``eps``: two equal Jordan blocks need two. Where the
    first places leave kappa beyond ``give_up``, there are no others.
    """
    centre = np.trace(A) / len(A)
    boundaries = []
    for ray in _rays(A):
        boundary = _boundary(A, centre, ray, eps)
        found = list(_candidates_at(A, centre + boundary * ray, eps, rank))
        boundaries.append((min(f.balanced_condition for f in found), ray, boundary))
        yield from found
    if not thorough:
        return
    kappa, ray, boundary = min(boundaries, key=lambda item: item[0])
    if give_up is not None and kappa > give_up:
        return
    for depth in _DEPTHS:
        yield from _candidates_at(A, centre + depth * boundary * ray, eps, rank)


def _rays(A: Array) -> tuple[complex | float, ...]:
    if np.isrealobj(A):
        return (-1.0, 1.0)  # z on the real axis has real singular vectors, so that E is real
    return tuple(np.exp(0.25j * np.pi * k) for k in range(8))


def _sigma_min(A: Array, z: complex | float) -> float:
    return float(singular_values(A - z * np.eye(len(A)))[-1])


def _boundary(A: Array, centre: complex | float, ray: complex | float, eps: float) -> float:
    """Distance from the centre along a ray at which sigma_min(A - zI) reaches the level, to 3 %."""
    far = norm2(A - centre * np.eye(len(A))) + eps  # sigma_min is at least eps there
    near, least = 0.0, 1e-3 * far  # the centre itself may be outside: then there is nothing to find
    while far - near > 0.03 * far and far > least:  # each step is a decomposition, and the place hardly matters
        middle = (near + far) / 2
        near, far = (middle, far) if _sigma_min(A, centre + middle * ray) < _LEVEL * eps else (near, middle)
    return (near + far) / 2


def _candidates_at(A: Array, z: complex | float, eps: float, rank: int | None) -> Iterator[Eigen]:
    U, s, Vh = svd(A - z * np.eye(len(A)))
    k = max(1, int((s < 0.1 * eps).sum())) if rank is None else rank
    # Distinct weights keep the eigenvalues of equal blocks apart; the largest is 1, so that ||E|| = eps.
    weights = np.linspace(1.0, 0.5, k) if k > 1 else np.ones(1)
    E = eps * (U[:, len(s) - k :] * weights[::-1]) @ Vh[len(s) - k :]
    for sign in (1, -1):  # one lifts the singular value, the other takes it through zero; either may do better
        yield eigen(A, sign * E)
