"""In which precision the few numbers are computed that all steps share."""

from __future__ import annotations

from torch import Tensor


def as_float64(tensor: Tensor) -> Tensor:
    """In float64, where the device has it."""
    return tensor if tensor.device.type == "mps" else tensor.double()
