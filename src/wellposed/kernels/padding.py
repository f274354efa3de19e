"""Sequences of different lengths in one padded batch, moved about by index."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

Sequences = Float[Tensor, "batch length channel"]


def reverse(u: Sequences, lengths: Int[Tensor, " batch"] | None) -> Sequences:
    """Each sequence back to front within its own length, padding at the end as before."""
    if lengths is None:
        return u.flip(1)
    t = torch.arange(u.shape[1], device=u.device)
    index = torch.where(t < lengths[:, None], lengths[:, None] - 1 - t, t)
    return u.gather(1, index[..., None].expand_as(u))


def align_right(u: Sequences, lengths: Int[Tensor, " batch"] | None) -> Sequences:
    """Zeros in front of each sequence instead of padding behind it."""
    if lengths is None:
        return u
    size = u.shape[1]
    t = torch.arange(size, device=u.device) - (size - lengths)[:, None]
    moved = u.gather(1, t.clamp(min=0)[..., None].expand_as(u))
    return torch.where((t >= 0)[..., None], moved, 0.0)
