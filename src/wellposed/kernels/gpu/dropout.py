"""Masks of dropout made from a seed and the place of a number, so that the backward makes the same again."""

from __future__ import annotations

from typing import no_type_check

import triton.language as tl

from wellposed.kernels.gpu.pieces import jit

ROUNDS = tl.constexpr(7)
"""Of Philox: the fewest that its authors found to pass all tests of randomness (Salmon et al. 2011)."""


@jit
@no_type_check
def drop(x, seeds, which, p, b, c, start, batch, length, DROPOUT: tl.constexpr, STEPS: tl.constexpr):
    """``x`` of channels ``c`` and the steps of sequence ``b`` from ``start`` on: zero with probability ``p``.

    What is kept grows to ``x / (1 - p)``. ``DROPOUT``: "none"; "tied", one draw for all steps of a channel of a
    sequence; or "untied".
    """
    if DROPOUT == "tied":
        draw = tl.rand(tl.load(seeds + which), c * batch + b, ROUNDS)[:, None]
        x = tl.where(draw >= p, x * (1 / (1 - p)), 0.0)
    if DROPOUT == "untied":
        x = tl.where(_draws(tl.load(seeds + which), b, c, start, batch, length, STEPS) >= p, x * (1 / (1 - p)), 0.0)
    return x


@jit
@no_type_check
def _draws(seed, b, c, start, batch, length, STEPS: tl.constexpr):
    """A call of the generator makes four numbers: they go to four steps in a row."""
    fours = start // 4 + tl.arange(0, STEPS // 4)
    at = ((c * batch + b) * tl.cdiv(length, 4))[:, None] + fours[None, :]
    first, second, third, fourth = tl.rand4x(seed, at, ROUNDS)
    return tl.join(tl.join(first, second), tl.join(third, fourth)).reshape(c.shape[0], STEPS)
