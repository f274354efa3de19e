"""What stands between the encoder of a Transformer and its first block: a class vector, positions, dropout."""

from __future__ import annotations

import math
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from wellposed.errors import ShapeError
from wellposed.kernels import as_float64
from wellposed.nn._lengths import Lengths

Positions = Literal["none", "sinusoidal", "learned"]
POSITIONS = ("none", "sinusoidal", "learned")
_BASE = 10000.0  # slowest over fastest wave (Vaswani et al., 2017)
_STD = 0.02  # of learned positions

Sequences = Float[Tensor, "batch length channel"]


def sinusoids(length: int, channels: int, like: Tensor) -> Float[Tensor, "length channel"]:
    """Sines, then cosines, of ``t / 10000^(i / (half - 1))``; a last odd channel is zero.

    >>> sinusoids(2, 4, torch.zeros(1))
    tensor([[0.0000e+00, 0.0000e+00, 1.0000e+00, 1.0000e+00],
            [8.4147e-01, 1.0000e-04, 5.4030e-01, 1.0000e+00]])
    """
    half = channels // 2
    # Angles in float64: in float32 step 16384 would be off by a thousandth of a radian.
    t = as_float64(torch.arange(length, device=like.device).float())
    i = as_float64(torch.arange(half, device=like.device).float())
    angle = (t[:, None] * _BASE ** (-i / max(half - 1, 1))).remainder(2 * math.pi)
    keep = torch.promote_types(like.dtype, torch.float32)
    parts = [angle.to(keep).sin(), angle.to(keep).cos(), t.new_zeros(length, channels % 2).to(keep)]
    return torch.cat(parts, 1).to(like.dtype)


class Entry(nn.Module):
    """The class vector before the steps, where there is one; ``scale`` times all of it; positions added; dropout.

    With ``norm`` a layer norm comes before the dropout, as in Luna.
    """

    def __init__(
        self,
        d_model: int,
        *,
        cls: bool = False,
        positions: Positions = "none",
        max_length: int | None = None,
        scale: float = 1.0,
        norm: bool = False,
        dropout: float | int = 0.0,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.kind: Positions = positions
        self.scale, self.max_length = scale, max_length
        self.cls = nn.Parameter(torch.zeros(d_model, dtype=dtype)) if cls else None
        self.positions = None
        if positions == "learned":
            assert max_length is not None
            self.positions = nn.Parameter(_STD * torch.randn(max_length + cls, d_model, dtype=dtype))
        self.norm = nn.LayerNorm(d_model, dtype=dtype) if norm else None
        self.dropout = nn.Dropout(float(dropout))

    def forward(self, x: Sequences, lengths: Lengths | None) -> tuple[Tensor, Lengths | None]:
        """Sequences for the first block, zero in the padding, and how long they are now."""
        if self.cls is not None:
            x = torch.cat([self.cls.expand(len(x), 1, -1), x], 1)
            lengths = None if lengths is None else Lengths(lengths.values + 1, lengths.size + 1)
        x = x * self.scale if self.scale != 1 else x
        x = x if self.kind == "none" else x + self._positions(x)
        x = self.dropout(x if self.norm is None else self.norm(x))
        return (x if lengths is None else lengths.zero(x)), lengths

    def _positions(self, x: Tensor) -> Tensor:
        if self.positions is None:
            return sinusoids(x.shape[1], x.shape[2], x)
        steps = x.shape[1] - (self.cls is not None)
        if x.shape[1] > len(self.positions):
            raise ShapeError(
                f"sequences of {steps} steps, and positions were learned for {self.max_length}: cut them, or make the "
                f"model with max_length={steps} or positions='sinusoidal'"
            )
        return self.positions[: x.shape[1]]

    def extra_repr(self) -> str:
        """What it adds."""
        return f"positions={self.kind!r}, cls={self.cls is not None}"
