"""How dense maps of the published baselines start, and in which precision they are applied."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from wellposed.nn._layer import SequenceLayer


def applied(linear: nn.Linear, x: Float[Tensor, "*batch inputs"]) -> Float[Tensor, "*batch outputs"]:
    """In the precision of ``x``, where the weights are kept in less."""
    if linear.weight.dtype == x.dtype:
        return linear(x)
    return F.linear(x, linear.weight.to(x.dtype), None if linear.bias is None else linear.bias.to(x.dtype))


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


def lecun_(module: nn.Module) -> None:
    """Every dense map and every table of vectors around layers normal with variance ``1 / in``, biases 0, as S5's.

    A table is the map of its tokens, each of them a one among zeros. What is inside a layer starts as the layer says.
    """
    if isinstance(module, nn.Linear | nn.Embedding):
        _draw(module, lambda inputs: inputs**-0.5)
    for part in module.children():
        if not isinstance(part, SequenceLayer):
            lecun_(part)


def normal_(module: nn.Module, std: float) -> None:
    """Every dense map and every table of vectors inside normal, biases 0, as BERT's."""
    _draw(module, lambda inputs: std)


@torch.no_grad()
def _draw(module: nn.Module, std: Callable[[int], float]) -> None:
    for part in module.modules():
        if isinstance(part, nn.Linear):
            part.weight.normal_(0.0, std(part.in_features))
            if part.bias is not None:
                part.bias.zero_()
        if isinstance(part, nn.Embedding):
            part.weight.normal_(0.0, std(part.num_embeddings))
            if part.padding_idx is not None:
                part.weight[part.padding_idx] = 0.0
