"""What a model says of a data set, item by item, with noise or without."""

from __future__ import annotations

from contextlib import nullcontext

import torch
from jaxtyping import Float
from torch import Tensor

from wellposed.data import SequenceDataset
from wellposed.nn import FourierNoise, SequenceModel


@torch.no_grad()
def predictions(
    model: SequenceModel,
    dataset: SequenceDataset,
    *,
    noise: FourierNoise | None = None,
    device: str = "auto",
    count: int | None = None,
    batch_size: int = 125,
) -> Float[Tensor, "item out"]:
    """Of the first ``count`` items, on the CPU; the model stays where it was brought to."""
    place = _place(device)
    items = torch.arange(min(count or len(dataset), len(dataset)))
    model.to(place).eval()
    with nullcontext() if noise is None else noise.on(model):
        some = (dataset.batch(each, device=place).through(model) for each in items.split(batch_size))
        return torch.cat([out.float() for out in some]).cpu()


def _place(device: str) -> torch.device:
    if device != "auto":
        return torch.device(device)
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")
