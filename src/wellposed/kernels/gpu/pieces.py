"""What several kernels share."""

from __future__ import annotations

from typing import Any, NamedTuple, no_type_check

import triton
import triton.language as tl
from torch import Tensor

jit: Any = triton.jit
"""Without types: a kernel is called with a grid in brackets and options that its signature does not have."""


class TableShape(NamedTuple):
    """Sizes that kernels are compiled for."""

    steps: int
    """A chunk, a power of 2."""
    state: int
    """Real numbers in a state, filled up with zeros to a power of 2; all real parts, then all imaginary ones."""
    jump: int
    """Chunks in a segment."""


class Tables(NamedTuple):
    """What all chunks of a channel share, float32. The second direction's are stored unturned, as if it came first."""

    kernel: Tensor
    """``(direction, channel, T)``: the first T values of the convolution, with the skip."""
    fold: Tensor
    """``(channel, T, state)``: what step s of a chunk adds to the state after it."""
    read: Tensor
    """``(direction, channel, state, T)``: what the state before a chunk adds to its outputs."""
    carry: Tensor
    """``(channel, state)`` of complex modes, or ``(channel, state, state)``: from one chunk to the next."""
    jump: Tensor
    """The same from one segment to the next; empty where there is one segment."""


@jit
@no_type_check
def dot(a, b, PRECISION: tl.constexpr):
    """``a @ b``, summed in float32; operands are rounded as ``device.dot_precision`` says."""
    if PRECISION == "bf16":
        return tl.dot(a.to(tl.bfloat16), b.to(tl.bfloat16))
    else:
        return tl.dot(a, b, input_precision=PRECISION)
