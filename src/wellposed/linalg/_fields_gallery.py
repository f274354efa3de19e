"""Non-normal matrices of other fields: fluids, physics, number theory, control, spectral methods.

Sources, beside those of ``gallery``: the matrices of EigTool (Wright 2002) and of Higham's Test Matrix Toolbox (1995),
written down from their definitions; each docstring names the paper a matrix comes from.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Complex128, Float64
from torch import Tensor

Real = Float64[Tensor, "n n"]
Complex = Complex128[Tensor, "n n"]
# Godunov, Modern Aspects of Linear Algebra (1998); computed eigenvalues are off by 1 or more.
_GODUNOV = (
    (289, 2064, 336, 128, 80, 32, 16),
    (1152, 30, 1312, 512, 288, 128, 32),
    (-29, -2000, 756, 384, 1008, 224, 48),
    (512, 128, 640, 0, 640, 512, 128),
    (1053, 2256, -504, -384, -756, 800, 208),
    (-287, -16, 1712, -128, 1968, -30, 2032),
    (-2176, -287, -1565, -512, -541, -1152, -289),
)


def lesp(n: int) -> Real:
    """Tridiagonal with real eigenvalues, sensitive ones: Lenferink and Spijker (1991)."""
    k = torch.arange(1, n + 1, dtype=torch.float64)
    return torch.diag(-(2 * k + 3)) + _diag(k[1:], 1) + _diag(1 / k[1:], -1)


def smoke(n: int) -> Complex:
    """Roots of unity on the diagonal, ones above and in the corner: smoke rings (Reichel and Trefethen 1992)."""
    phase = 2 * math.pi / n * torch.arange(1, n + 1, dtype=torch.float64)
    A = torch.diag(torch.polar(torch.ones(n, dtype=torch.float64), phase)) + _diag(torch.ones(n - 1), 1)
    A[-1, 0] += 1
    return A


def twisted(n: int) -> Real:
    """EigTool's twisted circulant, ``2 sin x`` on the diagonal: wave packets (Trefethen and Chapman 2004)."""
    x = 2 * math.pi / n * torch.arange(n, dtype=torch.float64)
    shift = torch.roll(torch.eye(n, dtype=torch.float64), 1, dims=1)
    return torch.diag(2 * x.sin()) + shift - shift.mT


def clement(n: int) -> Real:
    """Kac's and Clement's tridiagonal matrix: eigenvalues are integers, the couplings far from symmetric (1959)."""
    k = torch.arange(1, n, dtype=torch.float64)
    return _diag(k, 1) + _diag(k.flip(0), -1)


def redheffer(n: int) -> Real:
    """1 where i divides j, and in the first column: the Riemann hypothesis as a determinant (Redheffer 1977)."""
    i = torch.arange(1, n + 1)
    A = (i % i[:, None] == 0).double()
    A[:, 0] = 1
    return A


def basor(n: int) -> Complex:
    """A Toeplitz matrix with a symbol that jumps: Basor and Morrison (1994)."""
    k = torch.arange(n, dtype=torch.float64)
    offset = k - k[:, None]
    # Entries -i / (j - i + 1), and pi where that is 0/0: below the diagonal.
    smooth = -1 / torch.where(offset == -1, torch.ones_like(offset), offset + 1)
    return torch.complex(math.pi * (offset == -1).double(), torch.where(offset == -1, 0.0, smooth))


def hatano(n: int) -> Real:
    """Hatano and Nelson's hopping with a wind, ``g = 1/2``, in a random potential on [-1, 1] (1996; seed 0)."""
    potential = 2 * torch.rand(n, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) - 1
    ones = torch.ones(n - 1, dtype=torch.float64)
    return torch.diag(potential) + _diag(math.exp(0.5) * ones, 1) + _diag(math.exp(-0.5) * ones, -1)


def chebyshev(n: int) -> Real:
    """First derivative at Chebyshev points with ``u(1) = 0``: no eigenfunctions, and so no kind eigenvectors."""
    return _chebyshev_derivative(n)[0][1:, 1:].contiguous()


def orr_sommerfeld(n: int) -> Complex:
    """Plane Poiseuille flow at Reynolds number 5772, wave number 1: Orszag (1971), Reddy, Schmid, Henningson (1993)."""
    D, x = _chebyshev_derivative(n + 1)
    D2 = D @ D
    # Clamped ends: fourth derivatives of (1 - x^2) p(x), as in Trefethen's Spectral Methods in MATLAB, program 40.
    inner = torch.cat([torch.zeros(1), 1 / (1 - x[1:-1] ** 2), torch.zeros(1)]).double()
    D4 = (torch.diag(1 - x**2) @ D2 @ D2 - 8 * torch.diag(x) @ D2 @ D - 12 * D2) @ torch.diag(inner)
    D2, D4, x = D2[1:-1, 1:-1], D4[1:-1, 1:-1], x[1:-1]
    eye = torch.eye(n, dtype=torch.float64)
    flow = -1j * (2 * eye + torch.diag(1 - x**2) @ (D2 - eye))
    return torch.linalg.solve((D2 - eye).to(torch.complex128), (D4 - 2 * D2 + eye) / 5772 + flow)


def demmel(n: int) -> Real:
    """Demmel's triangular counterexample, entries from -1 to -1e4: stable, and a hair from unstable (1987)."""
    k = torch.arange(n, dtype=torch.float64)
    return -(10.0 ** (4 * (k - k[:, None]).clamp(min=0) / max(n - 1, 1))).triu()


def godunov(n: int) -> Real:
    """Godunov's 7 x 7 matrix, integers with eigenvalues 0, +-1, +-2, +-4 that rounding moves far; repeated or cut."""
    block = torch.tensor(_GODUNOV, dtype=torch.float64)
    return torch.block_diag(*[block] * -(-n // 7))[:n, :n].contiguous()


def nilpotent(n: int) -> Real:
    """Strictly upper triangle of a Gaussian matrix (seed 0): every eigenvalue is zero."""
    return torch.randn(n, n, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).triu(1) / n**0.5


def _diag(values: Tensor, offset: int) -> Real:
    """A matrix with these values on one diagonal; n = 1 has none but the main one."""
    return torch.diag(values.double(), offset) if len(values) else torch.zeros(1, 1, dtype=torch.float64)


def _chebyshev_derivative(n: int) -> tuple[Tensor, Tensor]:
    """The (n + 1) x (n + 1) differentiation matrix, and the points from 1 to -1."""
    k = torch.arange(n + 1, dtype=torch.float64)
    x = torch.cos(math.pi / n * k)
    c = (-1.0) ** k * torch.where((k == 0) | (k == n), 2.0, 1.0)
    # x_i - x_j by the product of sines: the difference of cosines would lose digits near the ends.
    gap = 2 * torch.sin(math.pi / (2 * n) * (k[:, None] + k)) * torch.sin(math.pi / (2 * n) * (k - k[:, None]))
    D = torch.outer(c, 1 / c) / torch.where(gap == 0, 1.0, gap)
    D = D - torch.diag(D.diagonal())
    return D - torch.diag(D.sum(dim=1)), x  # derivatives of constants are zero
