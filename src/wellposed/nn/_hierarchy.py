"""The levels of hierarchical attention, from the steps themselves to the coarsest averages and back."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from wellposed.nn._dot_product import Heads

Values = Float[Tensor, "batch head length value"]
Blocks = Float[Tensor, "batch head block step dim"]


@dataclass(frozen=True)
class Hierarchy:
    """How the levels are made."""

    block: int
    causal: bool
    dropout: float


@dataclass(frozen=True)
class _Level:
    """Sums over stretches of ``2^l`` steps, and how many of these steps exist."""

    q: Heads
    """Sums, or of causal attention the first query of each stretch."""
    k: Heads
    v: Values
    count: Float[Tensor, "#batch 1 length 1"]


@dataclass(frozen=True)
class _Sums:
    """``sum of exp(S - top) v`` and ``sum of exp(S - top)`` for every query."""

    values: Values
    weights: Float[Tensor, "batch head length 1"]
    top: Float[Tensor, "batch head length 1"]
    """The largest score of the query, no part of any gradient: it cancels."""


def attend(
    q: Heads,
    k: Heads,
    v: Values,
    how: Hierarchy,
    *,
    mask: Bool[Tensor, "batch length"] | None = None,
    bias: Float[Tensor, "head query key"] | None = None,
) -> Values:
    """Outputs of every step; zero where ``mask`` is false."""
    length = q.shape[2]
    exists = torch.ones(1, length, dtype=torch.bool, device=q.device) if mask is None else mask
    # Sums and numbers of steps in float32 at least: bfloat16 counts to 256.
    count = exists[:, None, :, None].to(torch.promote_types(q.dtype, torch.float32))
    level = _padded(_Level(q * q.shape[-1] ** -0.5 * count, k * count, v * count, count), how.block)
    found = [_neighbours(level, how, bias, finest=True)]
    while level.k.shape[2] > 2 * how.block:  # with two blocks left, all that is left are neighbours
        level = _coarser(_padded(level, 2 * how.block), how.causal)
        found.append(_neighbours(level, how, bias, finest=False))
    sums = found.pop()
    while found:
        sums = _joined(found.pop(), sums)
    # Only a step in the padding of a causal form may have seen nothing at all.
    y = sums.values / torch.where(sums.weights == 0, 1.0, sums.weights)
    return y[:, :, :length].to(v.dtype)


def _padded(level: _Level, multiple: int) -> _Level:
    """With steps that do not exist behind the others, to a whole number of blocks."""
    more = -level.k.shape[2] % multiple
    if more == 0:
        return level
    return _Level(*(F.pad(t, (0, 0, 0, more)) for t in (level.q, level.k, level.v, level.count)))


def _coarser(level: _Level, causal: bool) -> _Level:
    """Two stretches made one; a causal query must not know the second half of its stretch."""
    k, v, count = (t.unflatten(2, (-1, 2)).sum(3) for t in (level.k, level.v, level.count))
    q = level.q[:, :, ::2] if causal else level.q.unflatten(2, (-1, 2)).sum(3)
    return _Level(q, k, v, count)


def _neighbours(level: _Level, how: Hierarchy, bias: Tensor | None, *, finest: bool) -> _Sums:
    """Every block with the blocks beside it; at the finest level with itself too."""
    size = how.block
    each = level.count.clamp(min=1)
    q = _blocks(level.q if how.causal else level.q / each, size)
    k, v, count = (_beside(_blocks(t, size), how.causal, finest) for t in (level.k / each, level.v, level.count))
    unseen = (count[..., 0] == 0)[..., None, :] | _seen_already(how, finest, q.device)
    scores = q @ k.transpose(-1, -2)
    scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
    if bias is not None:
        scores = scores + _columns(bias, how.causal, finest)[:, None]
    scores = scores.masked_fill(unseen, -torch.inf)
    # The floor stands for -inf, of which a difference would not be a number.
    top = scores.detach().amax(-1, keepdim=True).clamp(min=torch.finfo(scores.dtype).min / 4)
    weights = (scores - top).exp()
    kept = F.dropout(weights, how.dropout) if how.dropout else weights
    values = kept.to(v.dtype) @ v
    total = (weights * count[..., 0][..., None, :]).sum(-1, keepdim=True)
    return _Sums(values.to(total.dtype).flatten(2, 3), total.flatten(2, 3), top.flatten(2, 3))


def _blocks(x: Heads, size: int) -> Blocks:
    return x.unflatten(2, (-1, size))


def _beside(x: Blocks, causal: bool, finest: bool) -> Float[Tensor, "batch head block key dim"]:
    """The steps of the block before, of the block itself at the finest level, and of the block behind."""
    around = F.pad(x, (0, 0, 0, 0, 1, 1))
    parts = [around[:, :, :-2]]
    parts += [x] if finest else []
    parts += [] if causal else [around[:, :, 2:]]
    return torch.cat(parts, 3) if len(parts) > 1 else parts[0]


def _columns(bias: Float[Tensor, "head query key"], causal: bool, finest: bool) -> Float[Tensor, "head query some"]:
    """Those of the blocks that ``_beside`` puts together."""
    before, own, behind = bias.chunk(3, -1)
    parts = [before, *([own] if finest else []), *([] if causal else [behind])]
    return torch.cat(parts, -1)


def _seen_already(how: Hierarchy, finest: bool, device: torch.device) -> Bool[Tensor, "query key"]:
    """Pairs that are not this level's: the future, and of neighbours the halves that touch, seen one level below."""
    size = how.block
    i, j = torch.arange(size, device=device)[:, None], torch.arange(size, device=device)
    none = torch.zeros(size, size, dtype=torch.bool, device=device)
    if finest:
        return torch.cat([none, j > i], 1) if how.causal else none.repeat(1, 3)
    before = (i < size // 2) & (j >= size // 2)
    behind = (i >= size // 2) & (j < size // 2)
    return before if how.causal else torch.cat([before, behind], 1)


def _joined(fine: _Sums, coarse: _Sums) -> _Sums:
    """Sums of a level and of all above it, on a common scale for every query."""
    length = fine.values.shape[2]
    values, weights, top = (_repeated(t)[:, :, :length] for t in (coarse.values, coarse.weights, coarse.top))
    highest = torch.maximum(fine.top, top)
    a, b = (fine.top - highest).exp(), (top - highest).exp()
    return _Sums(a * fine.values + b * values, a * fine.weights + b * weights, highest)


def _repeated(x: Heads) -> Float[Tensor, "batch head twice dim"]:
    """Each row twice: the two stretches that were made one."""
    return x[:, :, :, None].expand(-1, -1, -1, 2, -1).flatten(2, 3)
