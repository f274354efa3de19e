"""At how many radians a step the input of a layer meets the spikes of S4D, or another frequency."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Literal

import torch
from jaxtyping import Float64
from torch import Tensor

from wellposed.nn import S5, S5PTD, StateSpaceLayer
from wellposed.systems import spikes

Frequencies = tuple[float, ...] | Literal["all"] | None
"""Numbers, or all spikes of S4D, or its last."""
Angles = Float64[Tensor, "choice channel"]
"""Radians a step: a row for each frequency to choose from, a column for each channel or one for all."""


def column(frequency: Sequence[float], device: torch.device | None = None) -> Float64[Tensor, "choice 1"]:
    """Frequencies as rows."""
    return torch.tensor(frequency, dtype=torch.float64, device=device or "cpu")[:, None]


def angles(layer: StateSpaceLayer, frequency: Frequencies, dt: float | None = None) -> Angles:
    """``frequency * dt`` for the steps of a layer, or for the one given; spikes stand where the layer has them."""
    known = frequency if isinstance(frequency, tuple) else _spikes(_matrix_size(layer), frequency == "all")
    w = column(known, layer.log_dt.device)
    angle = w * (steps(layer, w) if dt is None else dt)
    if isinstance(frequency, tuple) or layer.disc != "bilinear":
        return angle
    return 2 * torch.atan(angle / 2)  # where the bilinear rule moves a spike: docs/devdocs/errata.md, 3


def steps(layer: StateSpaceLayer, frequency: Float64[Tensor, "choice 1"]) -> Angles:
    """``dt`` of every channel; in S5 that of the mode of nearest frequency, channels taking the blocks in turn."""
    dt = layer.log_dt.detach().double().exp()
    if not isinstance(layer, S5 | S5PTD):
        return dt.expand(len(frequency), -1)
    modes = layer.A_imag.detach().double().abs().unflatten(0, (layer.blocks, -1))
    nearest = (modes - frequency[..., None]).abs().argmin(-1, keepdim=True)  # (choice, block, 1)
    dt = dt.unflatten(0, (layer.blocks, -1)).expand(len(frequency), -1, -1).gather(-1, nearest)[..., 0]
    return dt[:, torch.arange(layer.d_model, device=dt.device) % layer.blocks]


def _matrix_size(layer: StateSpaceLayer) -> int:
    """``n`` of the HiPPO matrix, of which S5 has ``blocks`` copies."""
    return layer.d_state // layer.blocks if isinstance(layer, S5 | S5PTD) else layer.d_state


@cache
def _spikes(n: int, every: bool) -> tuple[float, ...]:
    return tuple(spikes(n, last=None if every else 1).frequency.tolist())
