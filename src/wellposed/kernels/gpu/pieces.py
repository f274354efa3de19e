"""Small functions that several kernels share."""

from __future__ import annotations

from typing import no_type_check

import triton
import triton.language as tl


@triton.jit
@no_type_check
def dot(a, b, PRECISION: tl.constexpr):
    """``a @ b``, summed in float32; operands are rounded as ``device.dot_precision`` says."""
    if PRECISION == "bf16":
        return tl.dot(a.to(tl.bfloat16), b.to(tl.bfloat16))
    return tl.dot(a, b, input_precision=PRECISION)
