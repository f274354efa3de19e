"""Attention of few queries to very many keys, a chunk of keys after another.

PyTorch's kernel for float32 gives every 64 keys to a block of threads of its own on the way back, and these add to the
gradient of the same few queries one at a time, behind a lock: the more keys, the longer the queue.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from wellposed.kernels.device import exporting
from wellposed.nn._tracing import inside_transform

Queries = Float[Tensor, "batch head query dim"]
Keys = Float[Tensor, "batch head key dim"]

DEVICES = ("cuda",)
"""Where PyTorch's kernel has that lock. Tests add the CPU."""
MANY, TIMES = 4096, 8
"""As many keys, and as many a query, are worth it."""
MOST_SCORES = 2**25
"""Of a chunk, all heads of a batch together: 128 MiB in float32, enough to keep a GPU busy."""
FEWEST_KEYS = 1024


def takes(q: Queries, k: Keys, v: Keys) -> bool:
    """Whether gradients of such attention come faster from here; bf16 and fp16 have kernels without the lock."""
    if q.device.type not in DEVICES or q.dtype not in (torch.float32, torch.float64):
        return False
    if k.shape[2] < max(MANY, TIMES * q.shape[2]) or torch.compiler.is_compiling() or exporting():
        return False
    return torch.is_grad_enabled() and any(t.requires_grad for t in (q, k, v)) and not inside_transform()


def attend(
    q: Queries, k: Keys, v: Keys, mask: Bool[Tensor, "#batch 1 1 key"] | None, dropout: float
) -> Float[Tensor, "batch head query dim"]:
    """``softmax(q k^T / sqrt(dim)) v``; memory is that of the keys and of one chunk of scores."""
    return _Attention.apply(q * q.shape[-1] ** -0.5, k, v, mask, dropout)


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, dropout: float) -> Tensor:
        top = q.new_full((*q.shape[:-1], 1), -torch.inf)
        total, y = torch.zeros_like(top), q.new_zeros(*q.shape[:-1], v.shape[-1])
        ctx.dropout, kept = dropout, []
        for part in _chunks(q, k):
            scores = _scores(q, k, mask, part)
            highest = torch.maximum(top, scores.amax(-1, keepdim=True))
            weights, before = scores.sub_(highest).exp_(), (top - highest).exp()
            total, top = total * before + weights.sum(-1, keepdim=True), highest
            if dropout:
                kept.append(torch.empty_like(weights, dtype=torch.bool).bernoulli_(1 - dropout))
                weights *= kept[-1]
            y = y * before + weights @ v[:, :, part]
        y = y / total
        ctx.save_for_backward(q, k, v, mask, y, top + total.log(), *kept)
        return y / (1 - dropout)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """With ``p`` the weights, ``ds = p (dp - sum of p dp)``, where the sum is ``y dy``: chunks need no other."""
        q, k, v, mask, y, top, *kept = ctx.saved_tensors
        grad = grad / (1 - ctx.dropout)
        of_sum, for_q = (grad * y).sum(-1, keepdim=True), torch.zeros_like(q)
        for_k, for_v = torch.empty_like(k), torch.empty_like(v)
        for i, part in enumerate(_chunks(q, k)):
            weights = _scores(q, k, mask, part).sub_(top).exp_()
            for_weights = grad @ v[:, :, part].mT
            for_v[:, :, part] = (weights * kept[i] if kept else weights).mT @ grad
            for_scores = (for_weights.mul_(kept[i]) if kept else for_weights).sub_(of_sum).mul_(weights)
            for_q += for_scores @ k[:, :, part]
            for_k[:, :, part] = for_scores.mT @ q
        return for_q, for_k, for_v, None, None


def _chunks(q: Tensor, k: Tensor) -> Iterator[slice]:
    size = max(MOST_SCORES // q[..., 0].numel(), FEWEST_KEYS)
    return (slice(start, start + size) for start in range(0, k.shape[2], size))


def _scores(q: Tensor, k: Tensor, mask: Tensor | None, part: slice) -> Tensor:
    """Of one chunk, which may be all padding, but for the first: every sequence has a first step."""
    scores = q @ k[:, :, part].mT
    return scores if mask is None else scores.masked_fill_(~mask[..., part], -torch.inf)
