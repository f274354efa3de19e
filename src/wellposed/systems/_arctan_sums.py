"""Sums of arctangents over 1..m in O(1) each, by the Euler-Maclaurin formula.

On the imaginary axis every product of the paper's closed forms is a magnitude and a phase, and the phase is a
sum of arctangents. The terms below ``_DIRECT`` are added one by one; beyond it the distance to the
singularities at ``x = +-i omega`` is at least ``_DIRECT``, where the remainder after ``_BERNOULLI`` is below one ulp.
docs/devdocs/lemma1.md has the derivation.
"""

from __future__ import annotations

import torch
from jaxtyping import Float64
from torch import Tensor

_DIRECT = 12
# B_2k / (2k (2k - 1)) for k = 1..8
_BERNOULLI = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156, -3617 / 122400)


def _correction(x: float, omega: Float64[Tensor, "..."]) -> tuple[Tensor, Tensor]:
    """Real and imaginary part of ``sum_k B_2k / (2k (2k-1)) w^(2k-1)`` with ``w = 1 / (x - i omega)``."""
    w = 1 / torch.complex(torch.full_like(omega, x), -omega)
    w2 = w * w
    total = torch.full_like(w, _BERNOULLI[-1])
    for coefficient in reversed(_BERNOULLI[:-1]):
        total = total * w2 + coefficient
    total = total * w
    return total.real, total.imag


def sum_arctan_up(omega: Float64[Tensor, "..."], m: int) -> Float64[Tensor, "..."]:
    """``sum_{j=1}^m arctan(j / omega)`` for ``omega >= 0``: small where ``omega`` is large."""
    total = torch.zeros_like(omega)
    for j in range(1, min(m, _DIRECT) + 1):
        total = total + torch.atan2(torch.full_like(omega, j), omega)
    if m <= _DIRECT:
        return total
    a, b = float(_DIRECT), float(m)
    at_a, at_b = (torch.atan2(torch.full_like(omega, x), omega) for x in (a, b))
    integral = b * at_b - a * at_a - omega / 2 * torch.log1p((b - a) * (b + a) / (omega**2 + a**2))
    return total + integral + (at_b - at_a) / 2 + _correction(b, omega)[1] - _correction(a, omega)[1]


def sum_arctan_down(omega: Float64[Tensor, "..."], m: int) -> Float64[Tensor, "..."]:
    """``sum_{j=1}^m arctan(omega / j)`` for ``omega >= 0``: small where ``omega`` is small."""
    total = torch.zeros_like(omega)
    for j in range(1, min(m, _DIRECT) + 1):
        total = total + torch.atan(omega / j)
    if m <= _DIRECT:
        return total
    a, b = float(_DIRECT), float(m)
    at_a, at_b = torch.atan(omega / a), torch.atan(omega / b)
    integral = b * at_b - a * at_a + omega / 2 * torch.log1p((b - a) * (b + a) / (omega**2 + a**2))
    return total + integral + (at_b - at_a) / 2 - _correction(b, omega)[1] + _correction(a, omega)[1]


def sum_arctan_slope(omega: Float64[Tensor, "..."], m: int) -> Float64[Tensor, "..."]:
    """``sum_{j=1}^m j / (omega^2 + j^2)``, the derivative of ``sum_arctan_down``."""
    total = torch.zeros_like(omega)
    for j in range(1, min(m, _DIRECT) + 1):
        total = total + j / (omega**2 + j**2)
    if m <= _DIRECT:
        return total
    a, b = float(_DIRECT), float(m)
    total = total + torch.log1p((b - a) * (b + a) / (omega**2 + a**2)) / 2
    total = total + (b / (omega**2 + b**2) - a / (omega**2 + a**2)) / 2
    for x, sign in ((b, 1.0), (a, -1.0)):
        w = 1 / torch.complex(torch.full_like(omega, x), -omega)
        term = torch.zeros_like(w)
        for k in range(len(_BERNOULLI), 0, -1):
            term = (term + _BERNOULLI[k - 1] * (2 * k - 1)) * w * w
        total = total - sign * term.real
    return total
