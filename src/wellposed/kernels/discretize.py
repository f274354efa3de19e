"""From continuous to discrete time, mode by mode, in real arithmetic: compilers meet no complex number."""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

Discretisation = Literal["zoh", "bilinear"]
DISCRETISATIONS: tuple[Discretisation, ...] = ("zoh", "bilinear")

# |lambda_bar|^2 - 1 as close to -1 as float64 comes: a mode that forgets within one step, but has a logarithm.
_FORGOTTEN = -1 + 2.0**-52


class DiscreteModes(NamedTuple):
    """``lambda_bar = exp(decay + i angle)`` and ``B_bar = gain B``."""

    decay: Float[Tensor, "*shape"]
    angle: Float[Tensor, "*shape"]
    gain: Float[Tensor, "*shape 2"]
    """Real and imaginary part."""


def discretize(
    real: Float[Tensor, "*shape"], imag: Float[Tensor, "*shape"], dt: Float[Tensor, "*#shape"], method: Discretisation
) -> DiscreteModes:
    """Modes ``real + i imag`` of continuous time, advanced by ``dt``.

    Logarithms and not ``lambda_bar`` itself: step 10^5 is then as exact as step 1, however slowly a mode decays.
    """
    return _zoh(real, imag, dt) if method == "zoh" else _bilinear(real, imag, dt)


def _zoh(real: Tensor, imag: Tensor, dt: Tensor) -> DiscreteModes:
    """``lambda_bar = exp(z)``, gain ``(exp(z) - 1) / lambda``, with ``z = lambda dt``."""
    x, y = dt * real, dt * imag
    size = x**2 + y**2
    # The quotient is 0 / 0 at z = 0, and NaN its gradient; below |z| = 1e-7 three terms of its series are exact.
    small = size < 1e-14
    safe = torch.where(small, 1.0, size)
    e = x.exp()
    # exp(z) - 1 without cancellation: expm1 for the decay, 1 - cos(y) = 2 sin(y/2)^2 for the turn.
    re, im = x.expm1() - 2 * e * (y / 2).sin() ** 2, e * y.sin()
    a, b = (re * x + im * y) / safe, (im * x - re * y) / safe
    a = torch.where(small, 1 + x / 2 + (x**2 - y**2) / 6, a)
    b = torch.where(small, y / 2 + x * y / 3, b)
    return DiscreteModes(x, y, torch.stack([dt * a, dt * b], -1))


def _bilinear(real: Tensor, imag: Tensor, dt: Tensor) -> DiscreteModes:
    """``lambda_bar = (1 + z/2) / (1 - z/2)``, gain ``dt / (1 - z/2)``."""
    x, y = dt * real, dt * imag
    below = (1 - x / 2) ** 2 + (y / 2) ** 2
    # At z = -2 exactly lambda_bar is 0, of which there is no logarithm.
    gone = (x == -2) & (y == 0)
    decay = torch.log1p(torch.where(gone, _FORGOTTEN, 2 * x / below)) / 2
    angle = torch.atan2(y, torch.where(gone, 1.0, 1 - (x**2 + y**2) / 4))
    return DiscreteModes(decay, angle, torch.stack([dt * (1 - x / 2) / below, dt * y / 2 / below], -1))
