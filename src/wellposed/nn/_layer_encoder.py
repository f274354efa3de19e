"""CCNN's beginning: a layer of the model's own kind takes the numbers of a step to its width."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from wellposed.errors import ArgumentError, UnknownNameError
from wellposed.nn._encoders import check_numbers, check_tokens, check_vocabulary
from wellposed.nn._layer import SequenceLayer
from wellposed.nn._layers import layer_factory
from wellposed.nn._lengths import Lengths
from wellposed.nn._model_config import ModelConfig
from wellposed.nn._norms import make_norm, normalise


class LayerEncoder(nn.Module):
    """``gelu(norm(layer(x)))``. Where a step is a token, its index is the number, as CCNN's authors have it."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.vocabulary, self.d_input = config.vocabulary, 1 if config.d_input is None else config.d_input
        self.layer = _lifting_layer(config, self.d_input)
        self.norm = make_norm(config.norm, config.d_model, **config.norm_options, dtype=config.dtype)

    def check(self, x: Tensor) -> None:
        """Tokens or numbers, as the model was made for."""
        if self.vocabulary is None:
            check_numbers(x, self.d_input, self.layer.compute_dtype)
        else:
            check_tokens(x)

    def forward(self, input: Tensor, lengths: Lengths | None = None) -> Tensor:
        """``(batch, length, d_model)``, zero in the padding."""
        x = input
        if self.vocabulary is not None:
            x = x if lengths is None else torch.where(lengths.mask, x, 0)
            check_vocabulary(x, self.vocabulary)
            x = x[..., None].to(self.layer.compute_dtype)
        x = F.gelu(normalise(self.norm, self.layer(x, lengths=lengths), lengths))
        return x if lengths is None else lengths.zero(x)


def _lifting_layer(config: ModelConfig, d_input: int) -> SequenceLayer:
    options: dict[str, Any] = {**config.layer_options, "d_output": config.d_model}
    try:
        return layer_factory(config.layer, options, config.dtype)(d_input)
    except UnknownNameError as error:
        if "d_output" not in str(error):
            raise
        raise ArgumentError(
            f"encoding='layer' begins with a layer that changes the number of channels, as 'flexconv' does; "
            f"{config.layer!r} does not: leave encoding out"
        ) from None
