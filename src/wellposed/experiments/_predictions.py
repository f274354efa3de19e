"""What a model says of a data set, item by item, with noise or without."""

from __future__ import annotations

from contextlib import nullcontext

import torch
from jaxtyping import Float
from torch import Tensor

from wellposed.data import SequenceDataset
from wellposed.nn import FourierNoise, SequenceModel

_ITEMS = 125
_STEPS_ON_A_CPU = 2**15
"""Of a batch: with more, what lies between two layers is fetched from the system anew each time, at half the speed."""


@torch.no_grad()
def predictions(
    model: SequenceModel,
    dataset: SequenceDataset,
    *,
    noise: FourierNoise | None = None,
    device: str = "auto",
    count: int | None = None,
) -> Float[Tensor, "item out"]:
    """Of the first ``count`` items, on the CPU; the model stays where it was brought to."""
    place = _place(device)
    items = dataset.lengths[:count].argsort(stable=True)  # little padding
    model.to(place).eval()
    at_once = _ITEMS if place.type != "cpu" else max(min(_ITEMS, _STEPS_ON_A_CPU // dataset.info.length), 1)
    with nullcontext() if noise is None else noise.on(model):
        some = (dataset.batch(each, device=place).through(model) for each in items.split(at_once))
        return torch.cat([out.float() for out in some]).cpu()[items.argsort()]


def _place(device: str) -> torch.device:
    if device != "auto":
        return torch.device(device)
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")
