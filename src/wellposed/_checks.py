"""Checks shared by the rooms of the house."""

from __future__ import annotations

import math
import operator
import types
from collections.abc import Iterable
from numbers import Real
from typing import Any, Literal, SupportsIndex, Union, get_args, get_origin

import numpy as np
import torch
from torch import Tensor

from wellposed.errors import ArgumentError, NotFiniteError, ShapeError, UnknownNameError


def number(value: Any, name: str) -> float:
    """Return ``value`` as a float; text, booleans, complex numbers and arrays are refused by name."""
    value = _dense(value, name) if isinstance(value, Tensor) else value
    plain = value.tolist() if isinstance(value, np.ndarray | np.generic | Tensor) else value
    if isinstance(plain, bool) or not isinstance(plain, Real):
        raise ArgumentError(f"{name} must be a number, got {value!r}")
    try:
        return float(plain)
    except OverflowError:
        raise ArgumentError(f"{name} is beyond the largest float, 1.8e308") from None


def one_of(name: Any, kind: str, known: Iterable[str]) -> str:
    """Return ``name`` if it is one of the known ones; the error lists the nearest."""
    if not isinstance(name, str) or name not in known:
        raise UnknownNameError(kind, name, known)
    return name


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


def as_tensor(value: Any, name: str) -> Tensor:
    """Numbers of any kind as a tensor: arrays and tensors keep their precision, Python's become 64-bit ones."""
    if isinstance(value, Tensor):
        return _dense(value, name)
    if hasattr(value, "toarray"):
        raise ArgumentError(f"{name} is a sparse matrix ({type(value).__name__}): pass {name}.toarray()")
    try:
        array = np.array(value)
    except ValueError:  # rows of different lengths
        raise ShapeError(f"{name} must have rows of one length") from None
    if array.dtype.kind not in "biufc":
        raise ArgumentError(f"{name} must hold numbers, got {_shown(value, array)}")
    if array.dtype.kind in "fc" and array.dtype.itemsize > (16 if array.dtype.kind == "c" else 8):
        array = array.astype(complex if array.dtype.kind == "c" else float)  # long doubles: no tensor holds them
    return torch.from_numpy(array)


def _dense(tensor: Tensor, name: str) -> Tensor:
    """A tensor whose entries can be read as they are."""
    if tensor.is_meta:
        raise ArgumentError(f"{name} is on the device 'meta': it has a shape and no entries")
    if tensor.is_quantized:
        raise ArgumentError(f"{name} is quantized ({tensor.dtype}): pass {name}.dequantize()")
    if tensor.layout != torch.strided:
        raise ArgumentError(f"{name} is a sparse tensor ({tensor.layout}): pass {name}.to_dense()")
    return tensor


def _shown(value: Any, array: np.ndarray) -> str:
    return repr(value) if array.ndim == 0 else f"an array of {array.dtype}"


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


_KINDS = {int: "a whole number", float: "a finite number", str: "a text", bool: "true or false", type(None): "none"}


def fits(value: Any, hint: Any) -> bool:
    """Whether a value is of the type that a field declares; what cannot be looked into is taken as it is."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return any(fits(value, each) for each in inner)
    if origin is Literal:
        return value in inner
    if origin is tuple:
        inner = inner[:1] * len(value) if isinstance(value, tuple) and inner[1:] == (...,) else inner
        return isinstance(value, tuple) and len(value) == len(inner) and all(map(fits, value, inner))
    if hint is float:
        return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < math.inf
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63
    kind = origin or hint
    return not isinstance(kind, type) or isinstance(value, kind)


def words_for(hint: Any) -> str:
    """What a field of this type takes, in words."""
    if get_origin(hint) in (Union, types.UnionType):
        parts = [each for each in get_args(hint) if not (each is int and float in get_args(hint))]
        return " or ".join(map(words_for, parts))
    if get_origin(hint) is tuple:
        return f"a tuple of {', '.join('...' if each is ... else words_for(each) for each in get_args(hint))}"
    if get_origin(hint) is Literal:
        return " or ".join(map(repr, get_args(hint)))
    return _KINDS.get(hint, "options by name" if get_origin(hint) is not None else str(hint))
