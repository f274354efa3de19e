"""What attention of any kind takes: heads, and the maps before and after them."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import torch
from torch import nn

from wellposed._checks import positive_int
from wellposed.errors import ArgumentError
from wellposed.nn._initial import check_dtype
from wellposed.nn._tied_dropout import checked_probability
from wellposed.nn._weights import xavier_


@dataclass(frozen=True)
class MultiHeadConfig:
    """What every self-attention takes."""

    d_model: int
    """Channels."""
    n_heads: int = 4
    """Heads, each of ``d_attention / n_heads`` channels."""
    _: KW_ONLY
    d_attention: int | None = None
    """Channels of queries, keys and values, all heads together; ``d_model`` unless given."""
    causal: bool = False
    """Whether a step sees only itself and those before it."""
    bias: bool = True
    """Whether the linear maps have one."""
    dropout: float | int = 0.0
    """Of the attention weights."""
    xavier: bool = False
    """Whether weights start as in the Transformer of the Long Range Arena, not as PyTorch's linear maps do."""
    seed: int | None = None
    """The same weights whatever else draws random numbers."""
    device: Any = None
    dtype: torch.dtype | None = None

    def __post_init__(self) -> None:
        positive_int(self.d_model, "d_model")
        self._check_width(positive_int(self.n_heads, "n_heads"), "n_heads", "")
        checked_probability(self.dropout)
        check_dtype(self.dtype)

    def _check_width(self, parts: int, what: str, why: str) -> None:
        name = "d_model" if self.d_attention is None else "d_attention"
        if positive_int(self.width, name) % parts:
            raise ArgumentError(f"{name} = {self.width} must be a multiple of {what} = {parts}{why}")

    @property
    def width(self) -> int:
        """Channels of queries, keys and values."""
        return self.d_model if self.d_attention is None else self.d_attention


def projections(config: MultiHeadConfig) -> tuple[nn.Linear, nn.Linear]:
    """To queries, keys and values side by side, and from the heads back to the channels."""
    wide, how = config.width, {"bias": config.bias, "dtype": config.dtype}
    qkv, out = nn.Linear(config.d_model, 3 * wide, **how), nn.Linear(wide, config.d_model, **how)
    if config.xavier:
        xavier_(qkv, parts=3)
        xavier_(out)
    return qkv, out
