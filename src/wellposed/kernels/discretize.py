"""From continuous to discrete time, mode by mode, in real arithmetic: compilers meet no complex number."""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

Discretisation = Literal["zoh", "bilinear"]
DISCRETISATIONS: tuple[Discretisation, ...] = ("zoh", "bilinear")

# |lambda_bar|^2 - 1 as close to -1 as float64 comes: a mode that forgets within one step, but has a logarithm.
FORGOTTEN = -1 + 2.0**-52


# The series of (exp(z) - 1) / z below |z| = 1e-2: the first term left out is z^8 / 9! < 3e-22.
_NEAR, _TERMS = 1e-2, 8

Pairs = Float[Tensor, "*shape 2"]


class DiscreteModes(NamedTuple):
    """``lambda_bar = exp(decay + i angle)`` and ``B_bar = gain B``."""

    decay: Float[Tensor, "*shape"]
    angle: Float[Tensor, "*shape"]
    gain: Pairs
    """Real and imaginary part."""


def discretize(
    real: Float[Tensor, "*shape"], imag: Float[Tensor, "*shape"], dt: Float[Tensor, "*#shape"], method: Discretisation
) -> DiscreteModes:
    """Modes ``real + i imag`` of continuous time, advanced by ``dt``.

    Logarithms and not ``lambda_bar`` itself: step 10^5 is then as exact as step 1, however slowly a mode decays. Modes
    of layers are never 0, and a GPU waits for every operation more: what may be 0 goes through ``discretize_any``.
    """
    x, y = dt * real, dt * imag
    if method == "zoh":
        return DiscreteModes(x, y, dt[..., None] * _expm1_over(x, y))
    decay, angle = _log_bilinear(x, y)
    return DiscreteModes(decay, angle, dt[..., None] * _one_over(x, y))


def discretize_any(
    real: Float[Tensor, "*shape"], imag: Float[Tensor, "*shape"], dt: Float[Tensor, "*#shape"], method: Discretisation
) -> tuple[Pairs, Pairs]:
    """``lambda_bar`` itself and the gain: for modes without a logarithm, ``lambda_bar = 0``, and unstable ones."""
    x, y = dt * real, dt * imag
    if method == "zoh":
        bar = torch.stack([x.exp() * y.cos(), x.exp() * y.sin()], -1)
        return bar, dt[..., None] * _expm1_over_any(x, y)
    inverse = _one_over(x, y)
    # The product keeps its digits near z = -2, where lambda_bar vanishes; beyond |z| = 1e154, where squares overflow,
    # lambda_bar is -1.
    bar = complex_product(torch.stack([1 + x / 2, y / 2], -1), inverse)
    far = torch.maximum(x.abs(), y.abs())[..., None] > 1e150
    return torch.where(far, torch.tensor([-1.0, 0.0]).to(bar), bar), dt[..., None] * inverse


def complex_product(a: Float[Tensor, "*a 2"], b: Float[Tensor, "*b 2"]) -> Float[Tensor, "*c 2"]:
    """``a b`` for complex numbers stored as pairs."""
    (p, q), (re, im) = a.unbind(-1), b.unbind(-1)
    return torch.stack([p * re - q * im, p * im + q * re], -1)


def _expm1_over(x: Tensor, y: Tensor, size: Tensor | None = None) -> Pairs:
    """``(exp(z) - 1) / z`` of zero-order hold, where ``lambda_bar = exp(z)``; ``z = x + i y = lambda dt`` is not 0."""
    size = x**2 + y**2 if size is None else size
    e = x.exp()
    # exp(z) - 1 without cancellation: expm1 for the decay, 1 - cos(y) = 2 sin(y/2)^2 for the turn.
    re, im = x.expm1() - 2 * e * (y / 2).sin() ** 2, e * y.sin()
    return torch.stack([(re * x + im * y) / size, (im * x - re * y) / size], -1)


def _expm1_over_any(x: Tensor, y: Tensor) -> Pairs:
    """The same, and its limit at 0, where the quotient is 0 / 0 and NaN its gradient: a series takes over near it."""
    size = x**2 + y**2
    small = size < _NEAR**2
    a, b = 1 + x / _TERMS, y / _TERMS
    for k in range(_TERMS - 1, 1, -1):
        a, b = 1 + (a * x - b * y) / k, (a * y + b * x) / k
    quotient = _expm1_over(x, y, torch.where(small, 1.0, size))
    return torch.where(small[..., None], torch.stack([a, b], -1), quotient)


def _one_over(x: Tensor, y: Tensor) -> Pairs:
    """``1 / (1 - z/2)`` of the bilinear rule."""
    below = (1 - x / 2) ** 2 + (y / 2) ** 2
    return torch.stack([(1 - x / 2) / below, y / 2 / below], -1)


def _log_bilinear(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """The logarithm of ``lambda_bar = (1 + z/2) / (1 - z/2)``."""
    below = (1 - x / 2) ** 2 + (y / 2) ** 2
    # At z = -2 exactly lambda_bar is 0, of which there is no logarithm.
    gone = (x == -2) & (y == 0)
    decay = torch.log1p(torch.where(gone, FORGOTTEN, 2 * x / below)) / 2
    return decay, torch.atan2(y, torch.where(gone, 1.0, 1 - (x**2 + y**2) / 4))
