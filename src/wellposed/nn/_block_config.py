"""The options of a block, written down once: for ``ResidualBlock``, for models, and for what is saved."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from wellposed._checks import positive_int
from wellposed.errors import ArgumentError
from wellposed.nn._initial import check_name
from wellposed.nn._norms import NORMS, Norm
from wellposed.nn._tied_dropout import checked_probability

Activation = Literal["gelu", "gelu_tanh", "none"]
GLU = Literal["full", "half", "half2", "linear", "none"]
ACTIVATIONS = ("gelu", "gelu_tanh", "none")
GLUS = ("full", "half", "half2", "linear", "none")


@dataclass(frozen=True, kw_only=True)
class BlockConfig:
    """What stands around a layer."""

    norm: Norm = "layer"
    """``"layer"`` (each step by itself), ``"batch"`` (a channel over all true steps of a batch) or ``"none"``."""
    norm_momentum: float | int = 0.1
    """Of batch norm: weight of the new batch in the running statistics. S5's published 0.95 is 0.05 here."""
    norm_padding: bool = False
    """Whether batch norm counts padding, as zeros: its statistics then depend on how different the lengths of a batch
    are and how far it is padded (``data.multiple`` of a run), as in S4's and S5's published code."""
    prenorm: bool = True
    """Whether the norm comes first, with one more after the last block of most models, or last."""
    activation: Activation = "gelu"
    """``"gelu"``, ``"gelu_tanh"`` (its approximation, which S5 has) or ``"none"``."""
    glu: GLU = "full"
    """The gate: ``"full"``, ``"half"``, ``"half2"``, ``"linear"`` or ``"none"``; see ``ResidualBlock``."""
    dropout: float | int = 0.0
    """After the activation and after the gate."""
    tied_dropout: bool = True
    """Whether a mask is shared over time."""
    residual: bool = True
    """Whether the input is added to the output."""
    d_ffn: int | None = None
    """Width of a feed-forward network after each layer: the blocks are then a Transformer's, ``TransformerBlock``."""

    @property
    def norm_options(self) -> dict[str, Any]:
        """Of a norm of this kind."""
        return {"momentum": self.norm_momentum, "count_padding": self.norm_padding}

    def __post_init__(self) -> None:
        check_name("norm", self.norm, NORMS)
        check_name("activation", self.activation, ACTIVATIONS)
        check_name("glu", self.glu, GLUS)
        checked_probability(self.dropout)
        if self.d_ffn is not None:
            positive_int(self.d_ffn, "d_ffn")
        if not isinstance(self.norm_momentum, float | int) or not 0 < self.norm_momentum <= 1:
            raise ArgumentError(
                f"norm_momentum is the weight of the new batch, above 0 and at most 1, got {self.norm_momentum!r}"
            )
