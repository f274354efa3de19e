"""A small classifier as it starts, of which only the head is fitted: what noise does to layers, without training."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float64
from torch import Tensor

from wellposed.data import SequenceDataset, load
from wellposed.nn import SequenceClassifier

STATES, CHANNELS, BLOCKS, CLASSES = 32, 32, 2, 10
_LENGTH, _WAVES = 256, 200
_RIDGE = 1e-3


def toy_waves(seed: int) -> tuple[SequenceDataset, SequenceDataset]:
    """Noisy waves of ten frequencies: some to fit on, half as many to test with."""
    with tempfile.TemporaryDirectory() as folder:
        sizes = {"train": _WAVES, "val": CLASSES, "test": _WAVES // 2}
        options = {"length": _LENGTH, "classes": CLASSES, "channels": 1, "seed": seed, **sizes}
        # on the heap: the folder goes away
        train, test = (load("toy", folder, split, **options).to("cpu") for split in ("train", "test"))
        return train, test


def fitted_model(
    layer: str, scale: str, seed: int, train: SequenceDataset, options: Mapping[str, Any] | None = None
) -> SequenceClassifier:
    """Blocks as the robustness test has them, in single precision; the head is a least-squares fit in double."""
    usual = {"rel": 0.1} if layer == "s4ptd" else {}
    options = {"d_state": STATES, "scale": scale} | dict(usual if options is None else options)
    model = SequenceClassifier(
        1,
        CLASSES,
        layer=layer,
        layer_options=options,
        d_model=CHANNELS,
        n_layers=BLOCKS,
        norm="layer",
        prenorm=False,
        residual=False,
        seed=seed,
    ).eval()
    batch = train.batch(range(len(train)))
    weight, bias = _least_squares(_pooled(model, batch), F.one_hot(batch.y, CLASSES).double())
    head: Any = model.head
    with torch.no_grad():
        head.weight.copy_(weight)
        head.bias.copy_(bias)
    return model


@torch.no_grad()
def _pooled(model: SequenceClassifier, batch: Any) -> Float64[Tensor, "item channel"]:
    """What the head is given."""
    found: list[Tensor] = []
    handle = model.head.register_forward_pre_hook(lambda head, given: found.append(given[0]))
    batch.through(model)
    handle.remove()
    return found[0].double()


def _least_squares(
    X: Float64[Tensor, "item channel"], Y: Float64[Tensor, "item class"]
) -> tuple[Float64[Tensor, "class channel"], Float64[Tensor, " class"]]:
    """Weight and bias, with a little damping."""
    mean, std = X.mean(0), X.std(0) + 1e-9
    Z = torch.cat([(X - mean) / std, torch.ones(len(X), 1, dtype=torch.float64)], 1)
    W = torch.linalg.solve(Z.mT @ Z + _RIDGE * len(Z) * torch.eye(Z.shape[1], dtype=torch.float64), Z.mT @ Y)
    weight = (W[:-1] / std[:, None]).mT
    return weight, W[-1] - weight @ mean
