"""The layers by name. A new one is a file, a line here, and a class in its test that inherits ``layer_suite``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from wellposed.errors import ArgumentError, UnknownNameError
from wellposed.nn._attention import SelfAttention
from wellposed.nn._flexconv import FlexConv
from wellposed.nn._hierarchical import HierarchicalAttention
from wellposed.nn._layer import SequenceLayer
from wellposed.nn._liquid import LiquidS4
from wellposed.nn._luna import LunaAttention
from wellposed.nn._s4 import S4
from wellposed.nn._s4d import S4D
from wellposed.nn._s4ptd import S4PTD
from wellposed.nn._s5 import S5
from wellposed.nn._s5ptd import S5PTD

Layer = str | Callable[..., SequenceLayer]

LAYERS: dict[str, Callable[..., SequenceLayer]] = {
    "s4": S4,
    "s4d": S4D,
    "s4ptd": S4PTD,
    "s5": S5,
    "s5ptd": S5PTD,
    "liquid-s4": LiquidS4,
    "attention": SelfAttention,
    "luna": LunaAttention,
    "hierarchical-attention": HierarchicalAttention,
    "flexconv": FlexConv,
}


def layer_name(layer: Layer) -> Layer:
    """The name of a class of the table; others as they are."""
    return next((name for name, known in LAYERS.items() if known is layer), layer)


def layer_factory(
    layer: Layer, options: Mapping[str, Any], dtype: torch.dtype | None
) -> Callable[[int], SequenceLayer]:
    """A layer by name or from the function given; seed, device and precision are the model's to choose."""
    for name in ("seed", "device", "dtype"):
        if name in options:
            raise ArgumentError(f"layer_options holds {name!r}: pass it to the model, which has several layers")
    if not isinstance(layer, str):
        return lambda d_model: layer(d_model, **options)
    if layer not in LAYERS:
        raise UnknownNameError("layer", layer, LAYERS)
    return lambda d_model: LAYERS[layer](d_model, dtype=dtype, **options)
