"""The idx files of MNIST: a magic number, the sizes, and the bytes."""

from __future__ import annotations

import gzip
import math
import os
import zlib
from io import BufferedIOBase
from pathlib import Path

import numpy as np

from wellposed.errors import DataError

_DIMENSIONS = {0x801: 1, 0x803: 3}
_LARGEST = 1 << 28  # bytes; the largest official file has 47,040,016


def read_idx(path: Path) -> np.ndarray:
    """The array in an idx1 or idx3 file of unsigned bytes; ``path.gz`` is read where there is no ``path``."""
    path = _existing(Path(path))
    try:
        with gzip.GzipFile(path) if path.suffix == ".gz" else path.open("rb") as file:
            return _read(file, path)
    except EOFError:
        raise DataError(f"{path} is truncated: remove it and fetch it again") from None
    except (OSError, zlib.error) as error:
        raise DataError(f"cannot read {path}: {error}; remove it and fetch it again") from None


def _existing(path: Path) -> Path:
    packed = path.with_name(f"{path.name}.gz")
    if not path.is_file() and not packed.is_file():
        raise DataError(f"there is neither {path} nor {packed}: fetch the data set first")
    return path if path.is_file() else packed


def _read(file: BufferedIOBase, path: Path) -> np.ndarray:
    magic = int.from_bytes(file.read(4), "big")
    if magic not in _DIMENSIONS:
        raise DataError(f"{path} starts with {magic:#010x}, and idx files of bytes start with 0x00000801 or 0x00000803")
    count = _DIMENSIONS[magic]
    header = file.read(4 * count)
    if len(header) < 4 * count:
        raise EOFError
    shape = [int.from_bytes(header[4 * i : 4 * i + 4], "big") for i in range(count)]
    size = math.prod(shape)
    if size > _LARGEST:
        raise DataError(f"{path} claims the shape {tuple(shape)}, {size} bytes, beyond {_LARGEST}: it is damaged")
    if path.suffix != ".gz":
        _check_length(os.fstat(file.fileno()).st_size - 4 - 4 * count, shape, path)
    content = file.read(size + 1)
    _check_length(len(content), shape, path)
    return np.frombuffer(content, dtype=np.uint8).reshape(shape).copy()


def _check_length(length: int, shape: list[int], path: Path) -> None:
    if length != math.prod(shape):
        relation = "fewer" if length < math.prod(shape) else "more"
        raise DataError(
            f"{path} holds {relation} bytes than its shape {tuple(shape)} needs, {math.prod(shape)}: it is damaged; "
            "remove it and fetch it again"
        )
