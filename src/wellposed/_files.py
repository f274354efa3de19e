"""Files are written whole or not at all; matrices are read from the formats people keep them in."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from wellposed.errors import RecordError


def write_whole(path: Path, content: str | bytes) -> Path:
    """Write to a temporary neighbour and move it into place: a reader sees the old file or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content.encode("utf-8") if isinstance(content, str) else content)
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
    return path


def read_matrix(path: Path) -> Any:
    """The one matrix in a .npy, .npz, .mat or .csv file; nothing in the file is executed."""
    readers = {".npy": _npy, ".npz": _npz, ".mat": _mat, ".csv": lambda p: np.loadtxt(p, delimiter=",", ndmin=2)}
    if path.suffix.lower() not in readers:
        raise RecordError(f"cannot read {path}: a matrix comes as {', '.join(readers)} or as a name such as legs:64")
    if not path.is_file():
        raise RecordError(f"there is no file {path}")
    try:
        return readers[path.suffix.lower()](path)
    except (ValueError, OSError, EOFError, KeyError) as error:
        raise RecordError(f"{path} does not hold a matrix that can be read: {error}") from None


def _npy(path: Path) -> Any:
    return np.load(path, allow_pickle=False)


def _npz(path: Path) -> Any:
    with np.load(path, allow_pickle=False) as file:
        return _only({name: file[name] for name in file.files}, path)


def _mat(path: Path) -> Any:
    from scipy.io import loadmat

    return _only({k: v for k, v in loadmat(path).items() if not k.startswith("__")}, path)


def _only(arrays: dict[str, Any], path: Path) -> Any:
    if len(arrays) == 1:
        return next(iter(arrays.values()))
    if "A" in arrays:
        return arrays["A"]
    raise RecordError(f"{path} holds {', '.join(arrays) or 'nothing'}: call the matrix A, or keep it alone")
