"""The part of a config that describes the model: its names are those of ``nn.ModelConfig`` and of the layer."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from functools import cache
from typing import Any, get_type_hints

from wellposed.errors import ArgumentError, UnknownNameError
from wellposed.nn import LAYERS, ModelConfig
from wellposed.train._values import checked, hints_of

_FROM_DATA = ("d_input", "d_output", "vocabulary")
_FROM_MODEL = ("d_model", "seed", "device", "dtype")


def model_fields() -> dict[str, Any]:
    """Fields of a model that a config may set, with their types."""
    return {name: hint for name, hint in hints_of(ModelConfig).items() if name not in _FROM_DATA}


@cache
def layer_config(layer: str) -> type | None:
    """The dataclass of a layer's options; ``None`` for a layer that has no such thing."""
    if layer not in LAYERS:
        raise UnknownNameError("layer", layer, LAYERS)
    make = LAYERS[layer]
    build = inspect.unwrap(make.__init__ if isinstance(make, type) else make)
    return get_type_hints(build).get("config")


def layer_fields(layer: str) -> dict[str, Any] | None:
    """Options of a layer that a config may set, with their types; ``None`` where the layer does not say."""
    config = layer_config(layer)
    return None if config is None else {k: v for k, v in hints_of(config).items() if k not in _FROM_MODEL}


def check_model(model: Mapping[str, Any]) -> None:
    """Refuse what no model has, before data are read for it."""
    for name in model:
        if name in _FROM_DATA:
            raise ArgumentError(f"model.{name} = {model[name]!r}: leave it out, the data decide it")
        if name not in model_fields():
            raise UnknownNameError("field of the model", name, model_fields())
        if name != "layer":
            checked(model[name], model_fields()[name], f"model.{name}")
    if not isinstance(model.get("layer", ""), str):
        raise ArgumentError(f"model.layer is a name, so that a run can be resumed: {', '.join(LAYERS)}")
    config = ModelConfig(1, 1, **{name: value for name, value in model.items() if name != "padding_idx"})
    assert isinstance(config.layer, str)
    options, known = config.layer_options, layer_fields(config.layer)
    if known is None:
        return
    for name in options:
        if name not in known:
            raise UnknownNameError(f"option of {config.layer}", name, known)
        checked(options[name], known[name], f"model.layer_options.{name}")
    make = layer_config(config.layer)
    assert make is not None
    make(d_model=config.d_model, **options)  # which refuses wrong values
