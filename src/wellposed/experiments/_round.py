"""Curves are stored with as many digits as a figure can show."""

from __future__ import annotations

from torch import Tensor


def digits(values: Tensor, count: int = 6) -> list[float]:
    """The numbers of a one-dimensional tensor, rounded to ``count`` significant digits."""
    return [float(f"{v:.{count}g}") for v in values.tolist()]
