"""The batches of CIFAR-10, which are pickles of Python 2, read without running anything that is written in them.

Two guards, either of which would do: only the opcodes of the official files are let through, with no way to make an
object but GLOBAL and REDUCE; and a GLOBAL gives an inert stand-in, for the three names of the official files, or an
error. numpy's own constructors are never called.
"""

from __future__ import annotations

import io
import pickle
import pickletools
import stat
from pathlib import Path
from typing import Any, Never

import numpy as np

from wellposed.errors import DataError

PIXELS = 3 * 32 * 32
_SMALLEST, _LARGEST = PIXELS, 48 * 2**20  # bytes; the official files have 31,036,000, give or take a thousand
_MEMOS = 1 << 17  # the unpickler makes a table as long as the largest of them
_OPCODES = {
    *("PROTO", "STOP", "MARK", "NONE", "NEWFALSE", "BININT", "BININT1", "BININT2", "BINSTRING", "SHORT_BINSTRING"),
    *("EMPTY_DICT", "SETITEMS", "EMPTY_LIST", "APPENDS", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3"),
    *("BINPUT", "LONG_BINPUT", "BINGET", "LONG_BINGET", "GLOBAL", "REDUCE", "BUILD"),
}


def read_batch(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """The images, uint8 of shape (N, 3, 32, 32), and the labels, uint8 of shape (N,), of one batch file."""
    path = Path(path)
    content = _content(path)
    try:
        _check_opcodes(content)
        return _arrays(_Unpickler(io.BytesIO(content), encoding="bytes").load())
    except DataError as error:
        raise DataError(f"{path} is no batch of CIFAR-10: {error}; fetch cifar-10-python.tar.gz again") from None
    except Exception as error:  # a stream made up to harm can fail in every way the unpickler has
        raise DataError(
            f"{path} is no batch of CIFAR-10, or is damaged: {error or type(error).__name__}; "
            "fetch cifar-10-python.tar.gz again"
        ) from None


def _content(path: Path) -> bytes:
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode) or not _SMALLEST <= status.st_size <= _LARGEST:
            raise DataError(
                f"{path} has {status.st_size} bytes, and a batch of CIFAR-10 has {_SMALLEST} to {_LARGEST}: it is "
                "another file or a damaged one; fetch cifar-10-python.tar.gz again"
            )
        with path.open("rb") as file:
            return file.read(_LARGEST)
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}; unpack cifar-10-python.tar.gz there") from None


def _check_opcodes(content: bytes) -> None:
    for opcode, argument, position in pickletools.genops(content):
        if opcode.name not in _OPCODES:
            raise DataError(f"it has the opcode {opcode.name} at byte {position}, which the official files do not have")
        if opcode.name == "LONG_BINPUT" and argument not in range(_MEMOS):
            raise DataError(f"it keeps an object under the number {argument}, beyond {_MEMOS}")


def _arrays(batch: object) -> tuple[np.ndarray, np.ndarray]:
    if type(batch) is not dict or type(batch.get(b"data")) is not _Array or type(batch.get(b"labels")) is not list:
        raise DataError("it does not hold a table with data and labels")
    pixels, labels = batch[b"data"].pixels(), batch[b"labels"]
    if len(labels) != len(pixels):
        raise DataError(f"it has {len(pixels)} images and {len(labels)} labels")
    if wrong := [label for label in labels if type(label) is not int or not 0 <= label <= 9]:
        raise DataError(f"it has the label {wrong[0]!r}, and labels are 0 to 9")
    return pixels.reshape(-1, 3, 32, 32), np.array(labels, dtype=np.uint8)


class _Array:
    """Stands for a numpy array: keeps its bytes once it has seen that they are pixels."""

    __slots__ = ("_bytes",)

    def __setstate__(self, state: object) -> None:
        version, shape, dtype, fortran, content = _fields(state, 5, "the state of an array")
        if version != 1 or type(dtype) is not _Bytes or fortran is not False or type(content) is not bytes:
            raise DataError("its array is not one of plain bytes")
        rows, columns = _fields(shape, 2, "the shape of an array")
        if type(rows) is not int or columns != PIXELS or rows < 1 or len(content) != rows * PIXELS:
            raise DataError(
                f"its array has the shape {shape!r} and {len(content)} bytes, and images have {PIXELS} each"
            )
        self._bytes = content

    def pixels(self) -> np.ndarray:
        """One row for each image."""
        return np.frombuffer(self._bytes, dtype=np.uint8).reshape(-1, PIXELS).copy()


class _Bytes:
    """Stands for numpy's dtype of unsigned bytes."""

    __slots__ = ()

    def __setstate__(self, state: object) -> None:
        if state not in [(3, mark, None, None, None, -1, -1, 0) for mark in (b"|", "|")]:
            raise DataError(f"its array is of {state!r:.80}, not of plain bytes")


class _Name:
    """Stands for a name that is only passed on."""

    __slots__ = ()


class _Reconstruct:
    """Stands for numpy.core.multiarray._reconstruct, called as numpy's pickles call it."""

    __slots__ = ()

    def __call__(self, *arguments: object) -> _Array:
        if len(arguments) != 3 or arguments[0] is not _NDARRAY or arguments[1:] not in [((0,), b"b"), ((0,), "b")]:
            raise DataError("it makes an array in another way than the official files do")
        return _Array()


class _DType:
    """Stands for numpy.dtype, which makes unsigned bytes only."""

    __slots__ = ()

    def __call__(self, *arguments: object) -> _Bytes:
        if arguments not in [(b"u1", 0, 1), ("u1", 0, 1)]:
            raise DataError(f"it has an array of {arguments!r:.80}, not of plain bytes")
        return _Bytes()


_NDARRAY = _Name()
_NAMES = {
    ("numpy.core.multiarray", "_reconstruct"): _Reconstruct(),
    ("numpy", "ndarray"): _NDARRAY,
    ("numpy", "dtype"): _DType(),
}


class _Unpickler(pickle.Unpickler):
    def find_class(self, module_name: str, global_name: str, /) -> Any:
        if (module_name, global_name) not in _NAMES:
            raise DataError(f"it names {module_name}.{global_name}, which the official files do not, and it is not run")
        return _NAMES[module_name, global_name]

    def persistent_load(self, pid: object, /) -> Never:
        raise DataError(f"it refers to something outside of it, {pid!r:.80}")


def _fields(value: object, count: int, what: str) -> tuple[Any, ...]:
    if type(value) is not tuple or len(value) != count:
        raise DataError(f"{what} has not {count} parts")
    return value
