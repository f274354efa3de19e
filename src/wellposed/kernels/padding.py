"""Sequences of different lengths in one padded batch, moved about by index. No length may be beyond the batch's."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

Sequences = Float[Tensor, "batch length channel"]
Padded = Float[Tensor, "batch length ..."]


def reverse(u: Sequences, lengths: Int[Tensor, " batch"] | None) -> Sequences:
    """Each sequence back to front within its own length, padding at the end as before."""
    if lengths is None:
        return u.flip(1)
    t = torch.arange(u.shape[1], device=u.device)
    return take_steps(u, torch.where(t < lengths[:, None], lengths[:, None] - 1 - t, t))


def align_right(u: Sequences, lengths: Int[Tensor, " batch"] | None) -> Sequences:
    """Zeros in front of each sequence instead of padding behind it."""
    if lengths is None:
        return u
    size = u.shape[1]
    t = torch.arange(size, device=u.device) - (size - lengths)[:, None]
    return _zeroed(take_steps(u, t.clamp(min=0)), t >= 0)


def zero_padding(u: Padded, lengths: Int[Tensor, " batch"] | None) -> Padded:
    """Zero behind the end of each sequence, whatever stood there, NaN included."""
    if lengths is None:
        return u
    return _zeroed(u, torch.arange(u.shape[1], device=u.device) < lengths[:, None])


def take_steps(u: Sequences, at: Int[Tensor, "batch taken"]) -> Float[Tensor, "batch taken channel"]:
    """These steps of each sequence, as whole rows: number by number a CPU takes several times as long."""
    rows = at + u.shape[1] * torch.arange(u.shape[0], device=u.device)[:, None]
    return u.flatten(0, 1).index_select(0, rows.flatten()).view(*at.shape, u.shape[2])


def _zeroed(u: Padded, mask: Bool[Tensor, "batch length"]) -> Padded:
    """Zero where the mask is not true. On a CPU ``where`` is vectorised between tensors alone."""
    zero = 0.0 if u.is_cuda else u.new_zeros(())
    return torch.where(mask.view(*mask.shape, *[1] * (u.ndim - 2)), u, zero)
