"""What several kernels share."""

from __future__ import annotations

import math
from typing import Any, NamedTuple, no_type_check

import torch
import triton
import triton.language as tl
from torch import Tensor

from wellposed.kernels.device import interpreted

jit: Any = triton.jit
"""Without types: a kernel is called with a grid in brackets and options that its signature does not have."""


INTERPRETED: Any = tl.constexpr(interpreted())


class Sizes(NamedTuple):
    """Sizes of the tables that all chunks of a channel share, which kernels are compiled for.

    They lie in one array of float32, one after another, so that few things are allocated and handed about:

    - kernel ``(direction, channel, T)``: the first T values of the convolution, with the skip;
    - fold ``(channel, T, state)``: what step s of a chunk adds to the state after it;
    - read ``(direction, channel, state, T)``: what the state before a chunk adds to its outputs;
    - carry ``(channel, state)`` of complex modes, or ``(channel, state, state)``: from one chunk to the next;
    - jump: the same from one segment of chunks to the next, if there are several.

    The second direction's are stored unturned, as if it came first.
    """

    directions: int
    channels: int
    steps: int
    """T, the steps of a chunk, a power of 2."""
    state: int
    """Real numbers in a state, filled up with zeros to a power of 2; all real parts, then all imaginary ones."""
    jump: int
    """Chunks in a segment; 0 if there is one segment."""
    dense: bool

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """Of the tables in their order."""
        d, H, T, S, jump, dense = self
        carry = (H, S, S) if dense else (H, S)
        return [(d, H, T), (H, T, S), (d, H, S, T), carry, carry if jump else (0,)]

    @property
    def total(self) -> int:
        """Numbers in all of them."""
        d, H, T, S, jump, dense = self
        return H * (d * T + (d + 1) * T * S + (S * S if dense else S) * (2 if jump else 1))

    def split(self, tables: Tensor) -> list[Tensor]:
        """The tables one by one."""
        parts = tables.split([math.prod(shape) for shape in self.shapes])
        return [part.view(shape) for part, shape in zip(parts, self.shapes, strict=True)]


class Norm(NamedTuple):
    """Batch norm on the way into a system: what kernels apply to a sequence as they read it."""

    moments: Tensor | None = None
    """Of ``batch_norm.moments``."""
    lengths: Tensor | None = None
    dtype: torch.dtype = torch.float32
    """Of what comes out: states, outputs, and the gradient of what is normalised."""

    @property
    def flags(self) -> dict[str, bool]:
        """What kernels are compiled for."""
        return {"NORMED": self.moments is not None, "PADDED": self.lengths is not None}


@jit
@no_type_check
def dot(a, b, PRECISION: tl.constexpr):
    """``a @ b``, summed in float32; operands are rounded as ``device.dot_precision`` says."""
    if PRECISION == "bf16":
        a = a.to(tl.bfloat16)
        b = b.to(tl.bfloat16)
        if INTERPRETED:  # whose products take bfloat16 for whole numbers
            return tl.dot(a.to(tl.float32), b.to(tl.float32), input_precision="ieee")
        else:
            return tl.dot(a, b)
    else:
        return tl.dot(a, b, input_precision=PRECISION)


@jit
@no_type_check
def fold_of(tables, H, T: tl.constexpr, DIRECTIONS: tl.constexpr):
    """Where the fold begins."""
    return tables + H * (DIRECTIONS * T)


@jit
@no_type_check
def read_of(tables, H, T: tl.constexpr, S: tl.constexpr, DIRECTIONS: tl.constexpr):
    """Where the read-out begins."""
    return tables + H * (DIRECTIONS * T + T * S)


@jit
@no_type_check
def carry_of(tables, H, T: tl.constexpr, S: tl.constexpr, DIRECTIONS: tl.constexpr):
    """Where the carry begins."""
    return tables + H * (DIRECTIONS * T + T * S + DIRECTIONS * T * S)


@jit
@no_type_check
def norm_of(norm, h, H, NORMED: tl.constexpr):
    """Mean, factor and bias of batch norm for a channel, from ``batch_norm.moments``."""
    if NORMED:
        return tl.load(norm + h), tl.load(norm + 3 * H + h), tl.load(norm + 4 * H + h)
    else:
        return 0.0, 1.0, 0.0


@jit
@no_type_check
def normalised(x, true, mean, factor, bias, NORMED: tl.constexpr):
    """What batch norm makes of ``x``, zero where no true step is; or ``x``, which is so already."""
    if NORMED:
        x = tl.where(true, (x.to(tl.float32) - mean) * factor + bias, 0.0)
    return x


@jit
@no_type_check
def ends_of(lengths, b, inside, L, PADDED: tl.constexpr):
    """How many true steps each of the sequences ``b`` has."""
    if PADDED:
        return tl.load(lengths + b, mask=inside, other=0).to(tl.int32)
    else:
        return tl.zeros_like(b) + L
