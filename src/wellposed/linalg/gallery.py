"""Matrices that resist diagonalisation: the classics, by name.

Sources: Trefethen and Embree, Spectra and Pseudospectra (2005); Higham, the MATLAB gallery; Wilkinson (1965).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from jaxtyping import Complex128, Float64
from torch import Tensor

from wellposed._checks import one_of
from wellposed.errors import ArgumentError
from wellposed.linalg import _fields_gallery as fields

__all__ = ["MATRICES", "matrix"]

Real = Float64[Tensor, "n n"]
_LARGEST = 20_000  # 3.2 GB in double precision


def _diagonals(n: int, values: dict[int, float]) -> Real:
    """A Toeplitz matrix from the values of its diagonals."""
    A = torch.zeros(n, n, dtype=torch.float64)
    for offset, value in values.items():
        if abs(offset) < n:
            A += torch.diag(torch.full((n - abs(offset),), value, dtype=torch.float64), offset)
    return A


def jordan(n: int) -> Real:
    """One Jordan block with eigenvalue 0."""
    return _diagonals(n, {1: 1.0})


def two_jordans(n: int) -> Real:
    """Two equal Jordan blocks: derogatory, so that no perturbation of rank one is enough."""
    h = n // 2
    return torch.block_diag(jordan(max(h, 1)), jordan(n - h)) if n > 1 else jordan(1)


def grcar(n: int) -> Real:
    """Grcar's Toeplitz matrix: ones on four diagonals, -1 below."""
    return _diagonals(n, {-1: -1.0, 0: 1.0, 1: 1.0, 2: 1.0, 3: 1.0})


def limacon(n: int) -> Real:
    """The Toeplitz matrix whose symbol is the limacon ``z + z^2``."""
    return _diagonals(n, {1: 1.0, 2: 1.0})


def bull_head(n: int) -> Complex128[Tensor, "n n"]:
    """The complex Toeplitz matrix with the symbol of the bull's head, ``2i z^-1 + z^2 + 0.7 z^3``."""
    return _diagonals(n, {2: 1.0, 3: 0.7}) + 2j * _diagonals(n, {-1: 1.0})


def frank(n: int) -> Real:
    """Frank's upper Hessenberg matrix, with tiny ill-conditioned eigenvalues."""
    i = torch.arange(1, n + 1, dtype=torch.float64)
    return torch.minimum(n + 1 - i[:, None], n + 1 - i).triu(-1)


def kahan(n: int) -> Real:
    """Kahan's graded triangular matrix with angle 1.2."""
    c, s = math.cos(1.2), math.sin(1.2)
    ones = torch.ones(n, n, dtype=torch.float64)
    return torch.diag(s ** torch.arange(n, dtype=torch.float64)) @ (
        torch.eye(n, dtype=torch.float64) - c * ones.triu(1)
    )


def wilkinson(n: int) -> Real:
    """Companion matrix of Wilkinson's polynomial, with roots 1 to n."""
    coefficients = [1]
    for root in range(1, n + 1):
        coefficients = [a - root * b for a, b in zip([*coefficients, 0], [0, *coefficients], strict=True)]
    A = _diagonals(n, {-1: 1.0})
    A[0] = -torch.tensor([float(c) for c in coefficients[1:]], dtype=torch.float64)
    return A


def companion(n: int) -> Real:
    """Companion matrix of ``(z - 1)^n``, a single Jordan block in disguise."""
    A = _diagonals(n, {-1: 1.0})
    A[0] = torch.tensor([-((-1.0) ** k) * math.comb(n, k) for k in range(1, n + 1)], dtype=torch.float64)
    return A


def convection(n: int) -> Real:
    """Convection-diffusion by central differences, with cell Peclet number 4."""
    h = 1 / (n + 1)
    peclet = 8 / h
    return _diagonals(n, {-1: 1 / h**2 + peclet / (2 * h), 0: -2 / h**2, 1: 1 / h**2 - peclet / (2 * h)})


def transient(n: int) -> Real:
    """Stable, and yet ``exp(tA)`` grows large first: -1 on the diagonal, 2 above it."""
    return _diagonals(n, {0: -1.0, 1: 2.0})


def scaled_jordan(n: int) -> Real:
    """A Jordan block whose couplings fall from 1 to 1e-4."""
    return torch.diag(torch.logspace(0, -4, n - 1, dtype=torch.float64), 1) if n > 1 else jordan(1)


def random_triangular(n: int) -> Real:
    """Upper triangle of a Gaussian matrix (seed 0): condition number exponential in n."""
    g = torch.Generator().manual_seed(0)
    return torch.randn(n, n, dtype=torch.float64, generator=g).triu() / n**0.5


def random_sparse(n: int) -> Complex128[Tensor, "n n"]:
    """Complex bidiagonal with random phases on the diagonal and 3 above it (seed 0)."""
    g = torch.Generator().manual_seed(0)
    phase = 2 * math.pi * torch.rand(n, dtype=torch.float64, generator=g)
    return torch.diag(torch.polar(torch.ones(n, dtype=torch.float64), phase)) + 3 * jordan(n)


def davies(n: int) -> Complex128[Tensor, "n n"]:
    """Davies' complex harmonic oscillator ``-d^2/dx^2 + i x^2`` on [-6, 6], by finite differences."""
    h = 12 / (n + 1)
    x = torch.linspace(-6 + h, 6 - h, n, dtype=torch.float64)
    return _diagonals(n, {-1: -1 / h**2, 0: 2 / h**2, 1: -1 / h**2}) + 1j * torch.diag(x**2)


def well_conditioned(n: int) -> Real:
    """A Gaussian matrix (seed 1): non-normal, but with eigenvectors nobody needs to fear."""
    return torch.randn(n, n, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


MATRICES: dict[str, Callable[[int], Tensor]] = {
    "jordan": jordan,
    "two-jordans": two_jordans,
    "scaled-jordan": scaled_jordan,
    "grcar": grcar,
    "limacon": limacon,
    "bull-head": bull_head,
    "frank": frank,
    "kahan": kahan,
    "wilkinson": wilkinson,
    "companion": companion,
    "convection": convection,
    "transient": transient,
    "random-triangular": random_triangular,
    "random-sparse": random_sparse,
    "davies": davies,
    "well-conditioned": well_conditioned,
    "lesp": fields.lesp,
    "smoke": fields.smoke,
    "twisted": fields.twisted,
    "clement": fields.clement,
    "redheffer": fields.redheffer,
    "basor": fields.basor,
    "hatano": fields.hatano,
    "chebyshev": fields.chebyshev,
    "orr-sommerfeld": fields.orr_sommerfeld,
    "demmel": fields.demmel,
    "godunov": fields.godunov,
    "nilpotent": fields.nilpotent,
}
"""The matrices by name, as the command line knows them; ``wellposed.hippo`` adds its own."""


def matrix(name: str) -> Tensor:
    """The matrix of a name with its size, such as ``"legs:64"`` or ``"jordan:50"``.

    >>> matrix("jordan:2").tolist()
    [[0.0, 1.0], [0.0, 0.0]]
    """
    kind, _, size = name.partition(":") if isinstance(name, str) else (name, "", "")
    one_of(kind, "matrix", MATRICES)
    if not size:
        raise ArgumentError(f"{name!r} lacks its size: write {kind}:32 for a 32 x 32 matrix")
    if not (size.isascii() and size.isdecimal() and int(size) > 0):
        raise ArgumentError(f"the size in {name!r} must be a whole number of at least 1: write {kind}:32")
    if int(size) > _LARGEST:
        raise ArgumentError(f"{name!r} is too large: its n x n numbers would fill the memory; n is at most {_LARGEST}")
    return MATRICES[kind](int(size))
