"""What a model is made of, in one frozen config that constructors, saving, presets and the command line all speak."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal

import torch

from wellposed._checks import positive_int
from wellposed._checks import seed as checked_seed
from wellposed.errors import ArgumentError
from wellposed.nn._block_config import BlockConfig
from wellposed.nn._encoders import ENCODINGS, Encoding
from wellposed.nn._entry import POSITIONS, Positions
from wellposed.nn._initial import check_dtype, check_name
from wellposed.nn._layers import Layer, layer_name
from wellposed.nn._pooling import POOLINGS, Pooling

Head = Literal["linear", "relu", "gelu"]
HEADS = ("linear", "relu", "gelu")
Dense = Literal["torch", "lecun"]


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
    encoding: Encoding = "plain"
    """Of a step: ``"plain"`` (a vector for each token, a linear map of numbers), ``"levels"`` (a vector for each of
    ``levels`` values of a single number, as pixels) or ``"layer"`` (a layer of the model's kind, then norm and GELU, as
    CCNN begins; a token is the number of its index)."""
    levels: int = 256
    """Of ``encoding="levels"``, from ``lowest`` to ``highest``."""
    lowest: float | int = 0.0
    highest: float | int = 1.0
    positions: Positions = "none"
    """Added to the vectors: ``"sinusoidal"``, ``"learned"`` (for ``max_length`` steps) or ``"none"``."""
    max_length: int | None = None
    """The most steps, where positions are learned."""
    layer: Layer = "s4ptd"
    """A name of ``LAYERS``, or a function of ``d_model`` that returns a layer."""
    layer_options: Mapping[str, Any] = field(default_factory=dict)
    """Further arguments of the layer."""
    d_model: int = 128
    """Channels."""
    n_layers: int = 4
    """Blocks, one after another."""
    last_norm: bool = True
    """Whether a norm follows the last block, where blocks begin with theirs: S4's models have one, S5's have none."""
    dense: Dense = "torch"
    """How dense maps and tables of vectors around the layers start: ``"torch"``, as PyTorch's or as their baseline's
    do, or ``"lecun"``, normal with variance ``1 / in`` and biases 0, as S5's."""
    pooling: Pooling = "mean"
    """Over the true steps: ``"mean"``, ``"last"``, ``"max"``, or ``"none"`` for an output at each step; ``"first"`` is
    the first step, ``"cls"`` that of a learned vector put before the sequence."""
    head: Head = "linear"
    """After the pooling: ``"linear"``, or with a hidden layer of ``d_head`` and a ``"relu"`` or ``"gelu"``."""
    d_head: int | None = None
    seed: int | None = None
    """The same weights whatever else draws random numbers; without one they come from PyTorch's generator."""
    dtype: torch.dtype | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("d_output", "d_model", "n_layers"):
            positive_int(getattr(self, name), name)
        check_name("pooling", self.pooling, POOLINGS)
        check_name("encoding", self.encoding, ENCODINGS)
        check_name("positions", self.positions, POSITIONS)
        check_name("head", self.head, HEADS)
        check_name("dense", self.dense, ("torch", "lecun"))
        self._check_ends()
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

    def _check_ends(self) -> None:
        """Options that need one another."""
        if positive_int(self.levels, "levels") < 2 or not self.lowest < self.highest:
            raise ArgumentError(
                f"levels need two or more from lowest up to highest, got {self.levels} from {self.lowest} to "
                f"{self.highest}"
            )
        if self.max_length is not None:
            positive_int(self.max_length, "max_length")
        elif self.positions == "learned":
            raise ArgumentError("positions='learned' has a vector for each step: give max_length, the most there are")
        if self.d_head is not None:
            positive_int(self.d_head, "d_head")
        if (self.d_head is None) != (self.head == "linear"):
            raise ArgumentError(f"d_head is the width of a hidden layer: got {self.d_head} with head={self.head!r}")

    @property
    def block(self) -> BlockConfig:
        """The options of its blocks."""
        return BlockConfig(**{own.name: getattr(self, own.name) for own in fields(BlockConfig)})
