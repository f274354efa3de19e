"""Partial sums of many programs, added up in a fixed order."""

from __future__ import annotations

import math
from typing import no_type_check

import torch
import triton.language as tl
from jaxtyping import Float
from torch import Tensor

from wellposed.kernels.gpu.launches import launch
from wellposed.kernels.gpu.pieces import jit

_ROWS, _COLUMNS, _WARPS = 512, 4, 8  # PyTorch's own sum, in float64 along the first axis, takes four times as long


def sum_of_parts(parts: Float[Tensor, "part *number"]) -> Float[Tensor, "*number"]:
    """Over the first axis, in float64."""
    count, numbers = len(parts), math.prod(parts.shape[1:])
    out = torch.empty(parts.shape[1:], dtype=torch.float64, device=parts.device)
    tile = {"ROWS": _ROWS, "COLUMNS": _COLUMNS, "num_warps": _WARPS}
    launch(_sum_of_parts, (-(-numbers // _COLUMNS),), parts, out, count, numbers, **tile)
    return out


@jit
@no_type_check
def _sum_of_parts(parts, out, count, numbers, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    n = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    total = tl.zeros((ROWS, COLUMNS), tl.float64)
    for first in range(0, count, ROWS):
        row = first + tl.arange(0, ROWS)
        inside = (row < count)[:, None] & (n < numbers)[None, :]
        total += tl.load(parts + row[:, None].to(tl.int64) * numbers + n[None, :], inside, other=0.0).to(tl.float64)
    tl.store(out + n, tl.sum(total, 0), n < numbers)
