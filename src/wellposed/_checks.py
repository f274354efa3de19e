"""Checks shared by the rooms of the house."""

from __future__ import annotations

import operator
from numbers import Real
from typing import Any, SupportsIndex

import numpy as np
import torch
from torch import Tensor

from wellposed.errors import ArgumentError, NotFiniteError, ShapeError


def number(value: Any, name: str) -> float:
    """Return ``value`` as a float; text, booleans, complex numbers and arrays are refused by name."""
    plain = value.tolist() if isinstance(value, np.ndarray | np.generic | Tensor) else value
    if isinstance(plain, bool) or not isinstance(plain, Real):
        raise ArgumentError(f"{name} must be a number, got {value!r}")
    try:
        return float(plain)
    except OverflowError:
        raise ArgumentError(f"{name} is beyond the largest float, 1.8e308") from None


def positive_int(value: SupportsIndex, name: str) -> int:
    """Return ``value`` as an int of at least 1."""
    try:
        number = operator.index(value)
    except TypeError:
        raise ShapeError(f"{name} must be a whole number, got {value!r}") from None
    if number < 1:
        raise ShapeError(f"{name} must be at least 1, got {number}")
    return number


def seed(value: Any, name: str = "seed") -> int:
    """Return ``value`` as an int that every generator takes: from 0 to 2^63 - 1; NumPy's integers pass."""
    try:
        number = -1 if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = -1
    if not 0 <= number < 2**63:
        raise ArgumentError(f"{name} must be a whole number from 0 to 2^63 - 1, got {value!r}")
    return number


def index_in(value: SupportsIndex, name: str, size: int, size_name: str = "n") -> int:
    """Return ``value`` as an index counted from 1, at most ``size``."""
    number = positive_int(value, name)
    if number > size:
        raise ShapeError(f"{name} counts from 1 to {size_name} = {size}, got {number}")
    return number


def finite(tensor: Tensor, name: str) -> Tensor:
    """Return ``tensor``, or say how many of its entries are NaN or infinite and where the first one is."""
    good = torch.isfinite(tensor)
    if not bool(good.all()):
        bad = (~good).nonzero()
        where = f"[{', '.join(str(i) for i in bad[0].tolist())}]" if tensor.ndim else ""
        first = tensor[tuple(bad[0].tolist())].item() if tensor.ndim else tensor.item()
        raise NotFiniteError(
            f"{name} has {len(bad)} entries that are NaN or infinite; the first is {name}{where} = {first}"
        )
    return tensor
