"""How dense maps of the published baselines start."""

from __future__ import annotations

import torch
from torch import nn


@torch.no_grad()
def xavier_(linear: nn.Linear, *, gain: float = 1.0, parts: int = 1) -> None:
    """Uniform with variance ``2 gain^2 / (in + out)``, bias 0; ``parts`` maps that lie in one are drawn as several."""
    for part in linear.weight.chunk(parts):
        nn.init.xavier_uniform_(part, gain)
    if linear.bias is not None:
        linear.bias.zero_()


@torch.no_grad()
def he_(linear: nn.Linear) -> None:
    """Normal with variance ``2 / in``, bias 0."""
    nn.init.kaiming_normal_(linear.weight)
    if linear.bias is not None:
        linear.bias.zero_()


@torch.no_grad()
def lecun_(module: nn.Module) -> None:
    """Every dense map and every table of vectors inside normal with variance ``1 / in``, biases 0, as Flax has them.

    A table is the map of its tokens, each of them a one among zeros.
    """
    for part in module.modules():
        if isinstance(part, nn.Linear):
            part.weight.normal_(0.0, part.in_features**-0.5)
            if part.bias is not None:
                part.bias.zero_()
        if isinstance(part, nn.Embedding):
            part.weight.normal_(0.0, part.num_embeddings**-0.5)
            if part.padding_idx is not None:
                part.weight[part.padding_idx] = 0.0


@torch.no_grad()
def normal_(module: nn.Module, std: float) -> None:
    """Every dense map and every table of vectors inside normal, biases 0, as BERT's."""
    for part in module.modules():
        if isinstance(part, nn.Linear | nn.Embedding):
            part.weight.normal_(0.0, std)
        if isinstance(part, nn.Linear) and part.bias is not None:
            part.bias.zero_()
        if isinstance(part, nn.Embedding) and part.padding_idx is not None:
            part.weight[part.padding_idx] = 0.0
