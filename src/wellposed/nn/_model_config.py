"""What a model is made of, in one frozen config that constructors, saving, presets and the command line all speak."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import torch

from wellposed._checks import positive_int
from wellposed._checks import seed as checked_seed
from wellposed.errors import ArgumentError
from wellposed.nn._block_config import BlockConfig
from wellposed.nn._initial import check_dtype, check_name
from wellposed.nn._layers import Layer, layer_name
from wellposed.nn._pooling import POOLINGS, Pooling


@dataclass(frozen=True, kw_only=True)
class ModelConfig(BlockConfig):
    """A model: its sizes, its layers with their options, the options of its blocks, and how it ends.

    >>> config = ModelConfig(3, 10, layer="s4d", layer_options={"d_state": 32}, norm="batch", dropout=0.1)
    >>> config.block.dropout
    0.1
    """

    d_input: int | None = field(kw_only=False)
    """Numbers a step; ``None`` with ``vocabulary``."""
    d_output: int = field(kw_only=False)
    """Classes, or numbers to predict."""
    vocabulary: int | None = None
    """How many tokens there are, where a step is a token."""
    padding_idx: int | None = None
    """A token whose vector is zero and stays so."""
    layer: Layer = "s4ptd"
    """A name of ``LAYERS``, or a function of ``d_model`` that returns a layer."""
    layer_options: Mapping[str, Any] = field(default_factory=dict)
    """Further arguments of the layer."""
    d_model: int = 128
    """Channels."""
    n_layers: int = 4
    """Blocks, one after another."""
    pooling: Pooling = "mean"
    """Over the true steps: ``"mean"``, ``"last"``, ``"max"``, or ``"none"`` for an output at each step."""
    seed: int | None = None
    """The same weights whatever else draws random numbers; without one they come from PyTorch's generator."""
    dtype: torch.dtype | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("d_output", "d_model", "n_layers"):
            positive_int(getattr(self, name), name)
        check_name("pooling", self.pooling, POOLINGS)
        if self.seed is not None:
            checked_seed(self.seed)
        check_dtype(self.dtype)
        if not (isinstance(self.layer, str) or callable(self.layer)):
            raise ArgumentError(f"layer is a name or a function of d_model, got {self.layer!r}")
        if not isinstance(self.layer_options or {}, Mapping):
            raise ArgumentError(f"layer_options holds arguments by name, got {self.layer_options!r}")
        # The one way to set a field of a frozen dataclass: a class of the table is kept by its name, options as a copy.
        object.__setattr__(self, "layer", layer_name(self.layer))
        object.__setattr__(self, "layer_options", dict(self.layer_options or {}))

    @property
    def block(self) -> BlockConfig:
        """The options of its blocks."""
        return BlockConfig(**{own.name: getattr(self, own.name) for own in fields(BlockConfig)})
