"""Sequences of different lengths in one padded batch."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from wellposed.errors import ArgumentError, ShapeError
from wellposed.kernels import zero_padding
from wellposed.nn._tracing import readable


@dataclass(frozen=True)
class Lengths:
    """True lengths, looked at once; a model makes one and hands it to all its layers."""

    values: Int[Tensor, " batch"]
    size: int
    """Steps of the padded batch."""

    @property
    def mask(self) -> Bool[Tensor, "batch length"]:
        """True where a sequence has a value."""
        return torch.arange(self.size, device=self.values.device) < self.values[:, None]

    def zero(self, u: Float[Tensor, "batch length ..."]) -> Float[Tensor, "batch length ..."]:
        """Zero in the padding, whatever stood there, NaN included."""
        return zero_padding(u, self.values)


def as_lengths(lengths: Tensor | Lengths | None, batch: int, size: int, device: torch.device) -> Lengths | None:
    """Lengths on the device of the batch; values are looked at unless a model has done so."""
    if lengths is None or isinstance(lengths, Lengths):
        return lengths
    whole = isinstance(lengths, Tensor) and not (lengths.is_floating_point() or lengths.is_complex())
    if not whole or lengths.dtype == torch.bool:
        kind = lengths.dtype if isinstance(lengths, Tensor) else type(lengths).__name__
        raise ArgumentError(f"lengths must be a tensor of whole numbers, got {kind}: torch.tensor([...])")
    if lengths.shape != (batch,):
        raise ShapeError(f"lengths has shape {tuple(lengths.shape)}; a batch of {batch} sequences needs ({batch},)")
    if readable(lengths):
        low, high = (int(v) for v in torch.aminmax(lengths))
        if low < 1 or high > size:
            wrong = low if low < 1 else high
            raise ArgumentError(f"lengths holds {wrong}; with sequences of {size} steps each must be from 1 to {size}")
    return Lengths(lengths.to(device, torch.int64), size)
