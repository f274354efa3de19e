"""Files are written whole or not at all; matrices are read from the formats people keep them in."""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from wellposed.errors import RecordError


def write_whole(path: Path, content: str | bytes) -> Path:
    """Write to a temporary neighbour and move it into place: a reader sees the old file or the new one.

    Its folder is created, as ``make_folder`` does.
    """
    try:
        make_folder(path.parent)
        replace_whole(path, content)
    except OSError as error:
        raise RecordError(f"cannot write {path}: {error.strerror or error}") from None
    return path


def check_folder(folder: Path) -> Path:
    """Refuse a folder that ``make_folder`` would refuse, before a long computation whose result is to go there."""
    if not folder.parent.exists():
        # Creating all of a mistyped path would put the result where nobody looks for it.
        raise RecordError(f"there is no folder {folder.parent}: create it first, or correct the name")
    return folder


def check_file(path: Path) -> Path:
    """Refuse a file that cannot be written, before a long computation whose result is to go there."""
    if path.is_dir():
        raise RecordError(f"{path} is a folder: name a file in it")
    if path.parent.exists() and not path.parent.is_dir():
        raise RecordError(f"cannot write {path}: {path.parent} is a file, not a folder")
    place = path if path.exists() else path.parent if path.parent.exists() else path.parent.parent
    if place.exists() and not os.access(place, os.W_OK):
        raise RecordError(f"cannot write {path}: {place} is write-protected")
    return path


def make_folder(folder: Path) -> Path:
    """Create a folder unless it is there; the one it lies in must be."""
    check_folder(folder).mkdir(exist_ok=True)
    return folder


def replace_whole(path: Path, content: str | bytes) -> None:
    """The same, with the operating system's own errors."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content.encode("utf-8") if isinstance(content, str) else content)
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


_SPARSE = "{path} holds a sparse matrix: save a dense one, np.save('A.npy', {load}.toarray())"


def read_matrix(path: Path) -> Any:
    """The one matrix in a .npy, .npz, .mat, .csv or .mtx file; nothing in the file is executed."""
    readers = {".npy": _npy, ".npz": _npz, ".mat": _mat, ".csv": _csv, ".mtx": _mtx}
    suffix = path.with_suffix("").suffix if path.name.lower().endswith(".mtx.gz") else path.suffix
    if suffix.lower() in (".rsa", ".rua"):
        raise RecordError(_SPARSE.format(path=path, load=f"scipy.io.hb_read({path.name!r})"))
    if suffix.lower() not in readers:
        raise RecordError(f"cannot read {path}: a matrix comes as {', '.join(readers)} or as a name such as legs:64")
    if not path.is_file():
        raise RecordError(f"there is no file {path}")
    try:
        return readers[suffix.lower()](path)
    except RecordError:
        raise
    except Exception as error:  # what readers raise on damaged files is not documented, and of many types
        raise RecordError(f"{path} does not hold a matrix that can be read: {error}") from None


def _npy(path: Path) -> Any:
    with path.open("rb") as file:
        return _plain(lambda: np.load(file, allow_pickle=False), path)


def _npz(path: Path) -> Any:
    with path.open("rb") as file:
        arrays = _plain(lambda: dict(np.load(file, allow_pickle=False)), path)
    if {"format", "shape", "data"} <= set(arrays):  # as scipy.sparse.save_npz writes it
        raise RecordError(_SPARSE.format(path=path, load=f"scipy.sparse.load_npz({path.name!r})"))
    return _only(arrays, path)


def _plain(load: Callable[[], Any], path: Path) -> Any:
    """What ``load`` returns; numpy's own advice for files it does not know, to trust them, is not passed on."""
    try:
        return load()
    except ValueError as error:
        if "pickle" not in str(error):
            raise
        raise RecordError(
            f"{path} does not hold plain numbers, and nothing else is loaded: save the matrix as float64 or complex128"
        ) from None


def _mat(path: Path) -> Any:
    from scipy.io import loadmat

    matrix = _only({k: v for k, v in loadmat(path).items() if not k.startswith("__")}, path)
    if hasattr(matrix, "toarray"):
        raise RecordError(f"{path} holds a sparse matrix: save a dense one, A = full(A) in MATLAB")
    return matrix


def _mtx(path: Path) -> Any:
    from scipy.io import mmread

    matrix = mmread(path)
    if hasattr(matrix, "toarray"):
        raise RecordError(_SPARSE.format(path=path, load=f"scipy.io.mmread({path.name!r})"))
    return matrix


def _csv(path: Path) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an empty file
        try:
            matrix = np.loadtxt(path, delimiter=",", ndmin=2)
        except ValueError as error:
            matrix = _complex_csv(path, error)
    if not matrix.size:
        raise RecordError(f"{path} is empty")
    return matrix


def _complex_csv(path: Path, first: ValueError) -> Any:
    try:
        return np.loadtxt(path, delimiter=",", ndmin=2, dtype=complex)
    except ValueError:
        raise RecordError(
            f"{path} does not hold a matrix that can be read: {str(first).partition(';')[0]}; "
            "write one row a line, its numbers separated by commas, and complex ones as 1.5-2j"
        ) from None


def _only(arrays: dict[str, Any], path: Path) -> Any:
    if len(arrays) == 1:
        return next(iter(arrays.values()))
    if "A" in arrays:
        return arrays["A"]
    raise RecordError(f"{path} holds {', '.join(arrays) or 'nothing'}: call the matrix A, or keep it alone")
