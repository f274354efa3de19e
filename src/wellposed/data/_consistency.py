"""Whether arrays are what a task says they are."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from wellposed.data._dataset import Info
from wellposed.errors import DataError


def check_info(info: Info, task: str) -> None:
    """That it is whole and does not contradict itself."""
    if not isinstance(info, Info):
        raise DataError(f"build must return an Info, got {type(info).__name__}")
    if info.task != task:
        raise DataError(f"the task is called {task}, its Info says {info.task}")
    if (info.channels is None) == (info.vocabulary is None) or bool(info.classes) == bool(info.targets):
        raise DataError("an Info has channels or a vocabulary, and classes or targets")
    if info.picture is not None and info.picture[0] * info.picture[1] != info.length:
        raise DataError(f"a picture of {info.picture} does not have length = {info.length} pixels")
    scales = [scale for scale in (info.mean, info.std) if scale is not None]
    if any(len(scale) != info.channels for scale in scales) or len(scales) == 1 or min(info.std or [1]) <= 0:
        wanted = f"mean and std go together, {info.channels} numbers each, std positive"
        raise DataError(f"{wanted}: {info.mean}, {info.std}")
    if not all(type(number) is float for scale in scales for number in scale):
        raise DataError(f"mean and std are Python floats: {info.mean}, {info.std}")


def check_split(split: str, arrays: Mapping[str, np.ndarray], info: Info) -> None:
    """That the arrays of a split fit each other and what the task says."""
    _check_targets(split, arrays["y"], info)
    x, offsets, pairs = arrays["x"], arrays.get("offsets"), arrays.get("pairs")
    (_check_numbers if info.vocabulary is None else _check_tokens)(split, x, info)
    lengths = np.diff(offsets) if offsets is not None else np.full(len(x), x.shape[1])
    shortest, longest = lengths.min(), lengths.max()
    if not 1 <= shortest <= longest <= info.length:
        raise DataError(f"split {split}: lengths go from {shortest} to {longest}, not from 1 to {info.length}")
    if info.pairs != (pairs is not None):
        raise DataError(f"split {split}: pairs were {'not ' if pairs is None else ''}written, Info says {info.pairs}")
    if pairs is not None and not 0 <= pairs.min() <= pairs.max() < len(lengths):
        raise DataError(f"split {split}: pairs name sequences 0 to {len(lengths) - 1}, got {_seen(pairs)}")


def _check_targets(split: str, y: np.ndarray, info: Info) -> None:
    if info.classes and (y.dtype.kind != "i" or y.ndim != 1 or not 0 <= y.min() <= y.max() < len(info.classes)):
        raise DataError(f"split {split}: classes are whole numbers from 0 to {len(info.classes) - 1}, got {_seen(y)}")
    if info.targets and (y.dtype.kind != "f" or y.shape[1:] != (len(info.targets),) or not np.isfinite(y).all()):
        wanted = f"finite floats (item, {len(info.targets)})"
        raise DataError(f"split {split}: targets {info.targets} are {wanted}, got {_seen(y)}")


def _check_tokens(split: str, x: np.ndarray, info: Info) -> None:
    top = len(info.vocabulary or ()) - 1
    if x.dtype.kind not in "iu" or x.ndim > 2 or not 0 <= x.min() <= x.max() <= top:
        raise DataError(
            f"split {split}: tokens are whole numbers from 0 to {top}, as a list of arrays or (item, length), "
            f"got {_seen(x)}"
        )


def _check_numbers(split: str, x: np.ndarray, info: Info) -> None:
    if x.dtype not in (np.uint8, np.float32) or x.ndim != 3 or x.shape[2] != info.channels:
        wanted = f"uint8 or float32 (item, length, {info.channels} channels)"
        raise DataError(f"split {split}: sequences are {wanted}, got {_seen(x)}")
    if (x.dtype == np.uint8) != (info.mean is not None):
        wanted = "pixels (uint8) come with a mean and std, numbers (float32) without"
        raise DataError(f"split {split}: {wanted}, got {_seen(x)}")
    if x.dtype == np.float32 and not np.isfinite(x).all():
        raise DataError(f"split {split}: some numbers are NaN or infinite")


def _seen(values: np.ndarray) -> str:
    return f"{values.dtype} {values.shape} from {values.min()} to {values.max()}"
