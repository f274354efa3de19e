"""From one vector, or the vectors of a pair, to the outputs of a model."""

from __future__ import annotations

import itertools

from torch import nn

from wellposed.nn._model_config import ModelConfig


def dense_head(config: ModelConfig, d_input: int, *, pairs: bool) -> nn.Sequential:
    """``"relu"`` as in the Transformer of the Long Range Arena, pairs a layer deeper; ``"gelu"`` as in Luna."""
    assert config.d_head is not None
    hidden, dtype = config.d_head, config.dtype
    if config.head == "gelu":
        first, last = (
            nn.Linear(d_input, hidden, dtype=dtype),
            nn.Linear(hidden, config.d_output, bias=False, dtype=dtype),
        )
        return nn.Sequential(first, nn.Dropout(float(config.dropout)), nn.GELU(), last)
    sizes = [d_input, hidden, *([max(hidden // 2, 1)] if pairs else []), config.d_output]
    layers = [nn.Linear(a, b, dtype=dtype) for a, b in itertools.pairwise(sizes)]
    return nn.Sequential(*(part for layer in layers[:-1] for part in (layer, nn.ReLU())), layers[-1])
