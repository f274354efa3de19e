"""From what a data set holds, tokens or numbers, to vectors of the width of a model."""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from wellposed._checks import positive_int
from wellposed.errors import ArgumentError, ShapeError
from wellposed.nn._lengths import Lengths
from wellposed.nn._tracing import readable

Encoding = Literal["plain", "levels", "layer"]
ENCODINGS = ("plain", "levels", "layer")
_WHOLE = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)


class TokenEncoder(nn.Embedding):
    """A vector for each token of a vocabulary; whatever stands in the padding is never looked up.

    Tokens equal to ``padding_idx`` have the vector zero, which training leaves alone.
    """

    def __init__(self, vocabulary: int, d_model: int, *, padding_idx: int | None, dtype: torch.dtype | None) -> None:
        vocabulary = positive_int(vocabulary, "vocabulary")
        if padding_idx is not None and not 0 <= padding_idx < vocabulary:
            raise ArgumentError(f"padding_idx must be from 0 to {vocabulary - 1}, got {padding_idx}")
        super().__init__(vocabulary, d_model, padding_idx, dtype=dtype)

    def check(self, x: Tensor) -> None:
        """Whole numbers, ``(batch, length)``."""
        check_tokens(x)

    def forward(self, input: Int[Tensor, "batch length"], lengths: Lengths | None = None) -> Tensor:
        """``(batch, length, d_model)``; tokens that exist must be in the vocabulary."""
        x = input if lengths is None else torch.where(lengths.mask, input, 0)
        self.check_vocabulary(x)
        return super().forward(x.long())

    def check_vocabulary(self, x: Tensor) -> None:
        """Tokens must have a vector, where they can be looked at."""
        check_vocabulary(x, self.num_embeddings)


class NumberEncoder(nn.Linear):
    """A linear map of the numbers at each step."""

    def __init__(self, d_input: int, d_model: int, *, dtype: torch.dtype | None) -> None:
        super().__init__(positive_int(d_input, "d_input"), d_model, dtype=dtype)

    def check(self, x: Tensor) -> None:
        """Real numbers, ``(batch, length, d_input)``, in the precision of the model."""
        check_numbers(x, self.in_features, self.weight.dtype)

    def forward(self, input: Float[Tensor, "batch length d_input"], lengths: Lengths | None = None) -> Tensor:
        """``(batch, length, d_model)``, in the precision of the weights under autocast too."""
        x = input if lengths is None else lengths.zero(input)
        return super().forward(x.to(self.weight.dtype)).to(self.weight.dtype)

    def channels_first(self, input: Float[Tensor, "batch length d_input"], lengths: Lengths | None = None) -> Tensor:
        """The same, channels first in memory: one product, in which the bias belongs to an input of ones."""
        x = input if lengths is None else lengths.zero(input)
        inputs = F.pad(x.to(self.weight.dtype).flatten(0, 1).t(), (0, 0, 0, 1), value=1.0)
        out = torch.cat([self.weight, self.bias[:, None]], 1) @ inputs
        return out.to(self.weight.dtype).unflatten(1, x.shape[:2]).permute(1, 2, 0)


class LevelEncoder(nn.Embedding):
    """A vector for each of ``levels`` values from ``lowest`` to ``highest``: pixels as tokens."""

    def __init__(
        self,
        levels: int,
        d_model: int,
        *,
        lowest: float | int,
        highest: float | int,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(levels, d_model, dtype=dtype)
        self.lowest, self.highest = float(lowest), float(highest)

    def check(self, x: Tensor) -> None:
        """One number a step, ``(batch, length, 1)``."""
        check_numbers(x, 1, self.weight.dtype)

    def forward(self, input: Float[Tensor, "batch length 1"], lengths: Lengths | None = None) -> Tensor:
        """``(batch, length, d_model)``; numbers beyond the ends count as the ends, what is no number stays none."""
        x = input if lengths is None else lengths.zero(input)
        top = self.num_embeddings - 1
        level = ((x[..., 0] - self.lowest) * (top / (self.highest - self.lowest))).round().clamp(0, top)
        # NaN as an index would end every program on the GPU; zero or NaN, the difference, is what it gives elsewhere.
        return super().forward(level.nan_to_num().long()) + (level - level)[..., None]


def check_tokens(x: Tensor) -> None:
    """Whole numbers, ``(batch, length)``."""
    if x.dtype not in _WHOLE:
        raise ArgumentError(f"tokens must be whole numbers, got {x.dtype}; for numbers give d_input, not vocabulary")
    if x.ndim != 2 or x.shape[1] == 0:
        raise ShapeError(f"tokens must be (batch, length) with a length of 1 or more, got {tuple(x.shape)}")


def check_vocabulary(x: Tensor, vocabulary: int) -> None:
    """Tokens must have a vector, where they can be looked at."""
    if x.numel() and readable(x):
        low, high = (int(v) for v in torch.aminmax(x))
        if low < 0 or high >= vocabulary:
            wrong, top = low if low < 0 else high, vocabulary - 1
            raise ArgumentError(f"token {wrong} is not in the vocabulary, which goes from 0 to {top}")


def check_numbers(x: Tensor, d_input: int, dtype: torch.dtype) -> None:
    """Real numbers, ``(batch, length, d_input)``, in the precision of the model."""
    if x.ndim != 3 or x.shape[-1] != d_input or x.shape[1] == 0:
        hint = "; a single number a step is x[..., None]" if x.ndim == 2 and d_input == 1 else ""
        raise ShapeError(
            f"the model takes (batch, length, d_input) with d_input = {d_input} and length at least 1, "
            f"got {tuple(x.shape)}{hint}"
        )
    if not x.dtype.is_floating_point:
        raise ArgumentError(f"the model takes real floating-point numbers, got {x.dtype}; for tokens give vocabulary")
    if (x.dtype == torch.float64) != (dtype == torch.float64):
        remedy = "model.double()" if x.dtype == torch.float64 else "x.double()"
        raise ArgumentError(f"the input is {x.dtype}, the model {dtype}: use {remedy}")
