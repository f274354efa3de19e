"""At how many radians a step the input of a layer meets the spikes of S4D, or another frequency."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Literal

import torch
from jaxtyping import Float64
from torch import Tensor

from wellposed.nn._layer import SequenceLayer
from wellposed.systems import spikes

Frequencies = tuple[float, ...] | Literal["all"] | None
"""Numbers, or all spikes of S4D, or its last."""
Angles = Float64[Tensor, "choice channel"]
"""Radians a step: a row for each frequency to choose from, a column for each channel or one for all."""


def column(frequency: Sequence[float], device: torch.device | None = None) -> Float64[Tensor, "choice 1"]:
    """Frequencies as rows."""
    return torch.tensor(frequency, dtype=torch.float64, device=device or "cpu")[:, None]


def angles(layer: SequenceLayer, frequency: Frequencies, dt: float | None = None) -> Angles:
    """``frequency * dt`` for the steps of a layer, or for the one given; spikes stand where the layer has them."""
    chosen = frequency if isinstance(frequency, tuple) else _spikes(layer.matrix_size, frequency == "all")
    w = column(chosen, next(layer.parameters()).device)
    angle = w * (layer.resonant_step(w) if dt is None else dt)
    return angle if isinstance(frequency, tuple) else layer.moved_by_discretisation(angle)


@cache
def _spikes(n: int, every: bool) -> tuple[float, ...]:
    return tuple(spikes(n, last=None if every else 1).frequency.tolist())
