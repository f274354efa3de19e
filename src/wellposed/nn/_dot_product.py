"""Exact attention, by PyTorch's own kernels: no matrix of all pairs of steps in memory."""

from __future__ import annotations

import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from wellposed.nn import _few_queries
from wellposed.nn._tracing import inside_transform

Heads = Float[Tensor, "batch head length dim"]


def dot_product_attention(
    q: Float[Tensor, "batch head query dim"],
    k: Float[Tensor, "batch head key dim"],
    v: Float[Tensor, "batch head key dim"],
    mask: Bool[Tensor, "..."] | None = None,
    *,
    dropout: float = 0.0,
    causal: bool = False,
) -> Float[Tensor, "batch head query dim"]:
    """``softmax(q k^T / sqrt(dim)) v``, where ``mask`` is true or there is none."""
    if not causal and (mask is None or mask.shape[1:3] == (1, 1)) and _few_queries.takes(q, k, v):
        return _few_queries.attend(q, k, v, mask, dropout)
    if inside_transform():  # the fused kernels cannot be mapped over
        with sdpa_kernel(SDPBackend.MATH):
            return F.scaled_dot_product_attention(q, k, v, mask, dropout, causal)
    return F.scaled_dot_product_attention(q, k, v, mask, dropout, causal)


def split_heads(x: Float[Tensor, "batch length channel"], heads: int) -> Heads:
    """The channels of each head by themselves."""
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def join_heads(x: Heads) -> Float[Tensor, "batch length channel"]:
    """Side by side again."""
    return x.transpose(1, 2).flatten(2)
