"""The layers of the other rows of the LRA table from their equations: dense, pair by pair, in float64."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor

Parameters = Mapping[str, Tensor]


def linear(p: Parameters, name: str, x: Tensor) -> Tensor:
    y = x @ p[f"{name}.weight"].T
    return y + p[f"{name}.bias"] if f"{name}.bias" in p else y


def softmax_attention(q: Tensor, k: Tensor, v: Tensor, heads: int) -> Tensor:
    """``(batch, length, channel)``, a head at a time."""
    size = q.shape[-1] // heads
    parts = []
    for h in range(heads):
        own = slice(h * size, (h + 1) * size)
        weights = torch.exp(q[..., own] @ k[..., own].mT / math.sqrt(size))
        parts.append(weights / weights.sum(-1, keepdim=True) @ v[..., own])
    return torch.cat(parts, -1)


def luna_attention(p: Parameters, x: Tensor, packed: Tensor, heads: int) -> tuple[Tensor, Tensor]:
    """Unpacked and packed, for sequences of one length."""
    k, v = linear(p, "pack_kv", x).chunk(2, -1)
    packed = softmax_attention(linear(p, "pack_q", packed), k, v, heads)
    k, v = linear(p, "kv", packed).chunk(2, -1)
    return linear(p, "out", softmax_attention(linear(p, "q", x), k, v, heads)), packed


def luna(p: Parameters, u: Tensor, heads: int) -> Tensor:
    rows = p["packed"][: u.shape[1]]
    return luna_attention(p, u, rows.expand(len(u), *rows.shape), heads)[0]


def level_of(i: int, j: int, block: int) -> int:
    """The first at which the blocks of two steps are the same or neighbours."""
    level = 0
    while abs(i // (block << level) - j // (block << level)) > 1:
        level += 1
    return level


def level_scores(q: Tensor, k: Tensor, block: int, causal: bool) -> Tensor:
    """``(length, length)`` scores of one head of one sequence, each pair at its level; ``-inf`` for the future."""
    length = len(q)
    rows = []
    for i in range(length):
        row = []
        for j in range(length):
            if causal and j > i:
                row.append(torch.tensor(-math.inf, dtype=q.dtype))
                continue
            size = 1 << level_of(i, j, block)
            a, b = i // size * size, j // size * size
            mean_q = q[a] if causal else q[a : a + size].mean(0)
            row.append(mean_q @ k[b : b + size].mean(0) / math.sqrt(q.shape[1]))
        rows.append(torch.stack(row))
    return torch.stack(rows)


def fast_level_scores(q: Tensor, k: Tensor, block: int, causal: bool) -> Tensor:
    """The same for ``(..., length, dim)``, by means of stretches laid over the steps: one matrix a level."""
    length = q.shape[-2]
    t = torch.arange(length)
    done, scores = torch.zeros(length, length, dtype=torch.bool), None
    level = 0
    while not done.all():
        of_stretch = (t[:, None] // (1 << level) == t // (1 << level)).to(q.dtype)
        mean = of_stretch / of_stretch.sum(1, keepdim=True)
        first = (t // (1 << level)) * (1 << level)
        found = (q[..., first, :] if causal else mean @ q) @ (mean @ k).mT / math.sqrt(q.shape[-1])
        touch = (t[:, None] // (block << level) - t // (block << level)).abs() <= 1
        scores = found if scores is None else torch.where(done, scores, found)
        done, level = done | touch, level + 1
    assert scores is not None
    return scores.masked_fill(t > t[:, None], -math.inf) if causal else scores


def levels(length: int, block: int) -> Tensor:
    """The level of every pair."""
    t = torch.arange(length)
    found, level = torch.full((length, length), -1), 0
    while (found < 0).any():
        touch = (t[:, None] // (block << level) - t // (block << level)).abs() <= 1
        found = torch.where((found < 0) & touch, level, found)
        level += 1
    return found


def hierarchical(p: Parameters, u: Tensor, heads: int, block: int, causal: bool) -> Tensor:
    q, k, v = (t.unflatten(-1, (heads, -1)).transpose(1, 2) for t in linear(p, "qkv", u).chunk(3, -1))
    scores = fast_level_scores(q, k, block, causal)
    if "relative_bias" in p:
        t = torch.arange(u.shape[1])
        size = 2 ** levels(u.shape[1], block)
        apart = t // size - t[:, None] // size
        scores = scores + p["relative_bias"][:, apart + 2 * block - 1]
    y = torch.softmax(scores, -1) @ v
    return linear(p, "out", y.transpose(1, 2).flatten(2))


def generated(p: Parameters, t: Tensor) -> Tensor:
    """The network's kernel at time ``t``, a number, for all channels."""
    if "generator.gamma" not in p:
        h = t[None]
        for l in range(2):
            h = torch.sin(3 * linear(p, f"generator.inner.{l}", h))
        return linear(p, "generator.out", h)
    gamma, mu, W, b = (p[f"generator.{name}"] for name in ("gamma", "mu", "W", "b"))
    h = None
    for l in range(4):
        g = torch.exp(-0.5 * (gamma[l] * (t - mu[l])) ** 2) * torch.sin(W[l] * t + b[l])
        h = g if h is None else g * linear(p, f"generator.inner.{l - 1}", h)
    assert h is not None
    return linear(p, "generator.out", h)


def flexconv_kernel(p: Parameters, length: int) -> Tensor:
    """``(sample, channel)``, now first."""
    sigma, rows = p["mask_width"], []
    for s in range(length):
        t = torch.tensor(1 - 2 * s / (length - 1), dtype=torch.float64)
        mask = torch.exp(-0.5 * (t - 1) ** 2 / (sigma**2 + 1e-8))
        rows.append(generated(p, t) * (mask if t >= 1 - sigma * math.sqrt(-2 * math.log(0.1)) else 0.0 * mask))
    return torch.stack(rows)


def flexconv(p: Parameters, u: Tensor, length: int, state: Tensor | None = None) -> tuple[Tensor, Tensor]:
    k = flexconv_kernel(p, length)
    past = torch.zeros(len(u), length - 1, u.shape[2], dtype=u.dtype) if state is None else state
    seen = torch.cat([past, u], 1)
    ys = [(seen[:, t : t + length].flip(1) * k).sum(1) for t in range(u.shape[1])]
    return linear(p, "mix", torch.stack(ys, 1) + p["bias"]), seen[:, u.shape[1] :]
