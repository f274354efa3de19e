"""What Transformers do at each step by itself, between their attentions."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from wellposed.nn._block_config import Activation
from wellposed.nn._weights import xavier_

Steps = Float[Tensor, "batch *length channel"]


def activated(x: Steps, activation: Activation) -> Steps:
    """The activations of a block, by name."""
    if activation == "none":
        return x
    return F.gelu(x, approximate="none" if activation == "gelu" else "tanh")


class FeedForward(nn.Module):
    """``W_2 dropout(activation(W_1 x))``, both maps with a bias."""

    def __init__(
        self,
        d_model: int,
        d_ffn: int,
        *,
        activation: Activation,
        dropout: nn.Module,
        device: Any = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.activation: Activation = activation
        self.dropout = dropout
        self.first = nn.Linear(d_model, d_ffn, device=device, dtype=dtype)
        self.last = nn.Linear(d_ffn, d_model, device=device, dtype=dtype)
        for linear in (self.first, self.last):
            xavier_(linear)

    def forward(self, x: Steps) -> Steps:
        """The same for whole sequences and for single steps."""
        return self.last(self.dropout(activated(self.first(x), self.activation)))
