"""Whether arrays are what a task says they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from wellposed.data._dataset import Info
from wellposed.data.store._fields import check_fields
from wellposed.errors import DataError


def as_targets(split: str, y: Any) -> np.ndarray:
    """Classes as int64, numbers as float32 in a column for each target."""
    try:
        y = np.asarray(y)
    except ValueError as error:
        raise DataError(f"split {split}: targets are one array, and this is none ({error})") from None
    if y.dtype.kind not in "biuf" or y.ndim not in (1, 2):
        raise DataError(f"split {split}: targets are whole or real numbers, one item a row, got {y.dtype} {y.shape}")
    if y.dtype.kind == "f":
        return (y[:, None] if y.ndim == 1 else y).astype(np.float32)
    return y.astype(np.int64)


def as_tokens(split: str, x: Any) -> list[np.ndarray]:
    """Sequences of tokens, each an array of whole numbers."""
    sequences: list[Any] = list(x) if isinstance(x, Sequence) else [None]
    if not all(isinstance(s, np.ndarray) and s.ndim == 1 and s.dtype.kind in "iu" for s in sequences):
        wanted = "one array, or a list of one-dimensional arrays of whole numbers, or of float32 (length, channel)"
        raise DataError(f"split {split}: give {wanted}")
    return sequences


def as_sequences(split: str, x: Any) -> list[np.ndarray]:
    """Sequences that may differ in length: tokens, or float32 numbers ``(length, channel)``."""
    if not isinstance(x, Sequence) or not any(isinstance(s, np.ndarray) and s.ndim == 2 for s in x):
        return as_tokens(split, x)
    kinds = sorted({_kind(s) for s in x})
    if len(kinds) > 1 or x[0].dtype != np.float32:
        wanted = "sequences of numbers are float32 (length, channel), all of as many channels"
        raise DataError(f"split {split}: {wanted}, got {' and '.join(kinds)}")
    return list(x)


def _kind(x: Any) -> str:
    """Its type and shape but for its length."""
    if not isinstance(x, np.ndarray):
        return type(x).__name__
    return f"{x.dtype} ({', '.join(['length', *map(str, x.shape[1:])])})"


def as_pairs(split: str, pairs: Any) -> np.ndarray:
    """Two places an item, as int64."""
    pairs = np.asarray(pairs)
    if pairs.dtype.kind not in "iu" or pairs.ndim != 2 or pairs.shape[1] != 2:
        raise DataError(f"split {split}: pairs are whole numbers (item, 2), got {pairs.dtype} {pairs.shape}")
    return pairs.astype(np.int64)


def indexable(x: np.ndarray) -> np.ndarray:
    """The same numbers in a type that PyTorch indexes on a GPU, as it does not those without sign of several bytes."""
    unsigned = x.dtype.kind == "u" and x.dtype.itemsize > 1
    return x.astype(np.int32 if x.size and x.max() < 2**31 else np.int64) if unsigned else x


def check_info(info: Info, task: str) -> None:
    """That it is whole and does not contradict itself."""
    if not isinstance(info, Info):
        raise DataError(f"build must return an Info, got {type(info).__name__}")
    check_fields(info)
    if info.task != task:
        raise DataError(f"the task is called {task}, its Info says {info.task}")
    if (info.channels is None) == (info.vocabulary is None) or bool(info.classes) == bool(info.targets):
        raise DataError("an Info has channels or a vocabulary, and classes or targets")
    if info.length < 1 or (info.channels or 1) < 1:
        raise DataError(f"length and channels count from 1, got {info.length} and {info.channels}")
    if info.picture is not None and (min(info.picture) < 1 or info.picture[0] * info.picture[1] != info.length):
        raise DataError(f"a picture of {info.picture} does not have length = {info.length} pixels")
    scales = [scale for scale in (info.mean, info.std) if scale is not None]
    if any(len(scale) != info.channels for scale in scales) or len(scales) == 1 or min(info.std or [1]) <= 0:
        expected = f"mean and std go together, {info.channels} numbers each, std positive"
        raise DataError(f"{expected}: {info.mean}, {info.std}")


def check_split(split: str, arrays: Mapping[str, np.ndarray], info: Info) -> None:
    """That the arrays of a split fit each other and what the task says."""
    _check_targets(split, arrays["y"], info)
    x, offsets, pairs = arrays["x"], arrays.get("offsets"), arrays.get("pairs")
    lengths = np.diff(offsets) if offsets is not None else np.full(len(x), x.shape[1] if x.ndim > 1 else 0)
    shortest, longest = lengths.min(), lengths.max()
    if not 1 <= shortest <= longest <= info.length:
        raise DataError(f"split {split}: lengths go from {shortest} to {longest}, not from 1 to {info.length}")
    if info.picture is not None and shortest < info.length:
        raise DataError(f"split {split}: pictures of {info.picture} have {info.length} pixels, the smallest {shortest}")
    if info.vocabulary is not None:
        _check_tokens(split, x, info)
    else:
        _check_numbers(split, x, info, ragged=offsets is not None)
    if info.pairs != (pairs is not None):
        raise DataError(f"split {split}: pairs were {'not ' if pairs is None else ''}written, Info says {info.pairs}")
    if pairs is not None and not 0 <= pairs.min() <= pairs.max() < len(lengths):
        raise DataError(f"split {split}: pairs name sequences 0 to {len(lengths) - 1}, got {_seen(pairs)}")


def _check_targets(split: str, y: np.ndarray, info: Info) -> None:
    if info.classes and (y.dtype.kind != "i" or y.ndim != 1 or not 0 <= y.min() <= y.max() < len(info.classes)):
        raise DataError(f"split {split}: classes are whole numbers from 0 to {len(info.classes) - 1}, got {_seen(y)}")
    if info.targets and (y.dtype.kind != "f" or y.shape[1:] != (len(info.targets),) or not np.isfinite(y).all()):
        expected = f"finite floats (item, {len(info.targets)})"
        raise DataError(f"split {split}: targets {info.targets} are {expected}, got {_seen(y)}")


def _check_tokens(split: str, x: np.ndarray, info: Info) -> None:
    top = len(info.vocabulary or ()) - 1
    if x.dtype.kind not in "iu" or x.ndim > 2 or not 0 <= x.min() <= x.max() <= top:
        raise DataError(
            f"split {split}: tokens are whole numbers from 0 to {top}, as a list of arrays or (item, length), "
            f"got {_seen(x)}"
        )


def _check_numbers(split: str, x: np.ndarray, info: Info, *, ragged: bool) -> None:
    # Sequences of several lengths lie one after the other. Pixels do not: their padding would come out as -mean / std.
    dtypes, axes = ((np.float32,), ("step",)) if ragged else ((np.uint8, np.float32), ("item", "length"))
    if x.dtype not in dtypes or x.ndim != len(axes) + 1 or x.shape[-1] != info.channels:
        types = " or ".join(np.dtype(dtype).name for dtype in dtypes)
        expected = f"{types} ({', '.join(axes)}, {info.channels} channels)"
        raise DataError(f"split {split}: sequences are {expected}, got {_seen(x)}")
    if (x.dtype == np.uint8) != (info.mean is not None):
        expected = "pixels (uint8) come with a mean and std, numbers (float32) without"
        raise DataError(f"split {split}: {expected}, got {_seen(x)}")
    if x.dtype == np.float32 and not np.isfinite(x).all():
        raise DataError(f"split {split}: some numbers are NaN or infinite")


def _seen(values: np.ndarray) -> str:
    return f"{values.dtype} {values.shape} from {values.min()} to {values.max()}"
