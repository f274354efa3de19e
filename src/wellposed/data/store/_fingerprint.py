"""Whether files are still what they were: by size and time at a glance, by their content when in doubt."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

from wellposed.data.store._checksum import checksum_of
from wellposed.errors import DataError


def digest(path: Path) -> str:
    """Checksum of a file's content; of a folder, of the names and contents of all files in it."""
    if not path.is_dir():
        return checksum_of(path)
    total = hashlib.sha256()
    for name, file in _files(path):
        total.update(f"{name}\0{checksum_of(file)}\n".encode())
    return f"sha256:{total.hexdigest()}"


def glance(path: Path) -> str:
    """Sizes and times, cheap to ask for: equal ones mean that nothing was written since."""
    if not path.is_dir():
        return _size_and_time(path.stat())
    total = hashlib.sha256()
    for entry in sorted(os.scandir(path), key=lambda entry: entry.name):
        current = glance(Path(entry.path)) if entry.is_dir() else _size_and_time(entry.stat())
        total.update(f"{entry.name}\0{current}\n".encode())
    return total.hexdigest()


def _size_and_time(stat: os.stat_result) -> str:
    return f"{stat.st_size}-{stat.st_mtime_ns}"


def _files(folder: Path) -> list[tuple[str, Path]]:
    return sorted((str(file.relative_to(folder).as_posix()), file) for file in folder.rglob("*") if file.is_file())


def exists(path: Path) -> bool:
    """Whether it is there; where the system does not let us look, that is an error and not an answer."""
    try:
        return path.exists()
    except OSError as error:
        raise DataError(
            f"cannot read {path}: {error.strerror or error}; give yourself access to it, or give another root"
        ) from None


def fingerprint(path: Path) -> dict[str, Any]:
    """Both, to be kept."""
    current = glance(path)  # first: what is written meanwhile is noticed next time
    return {"checksum": digest(path), "glance": current}


def recognised(path: Path, recorded: dict[str, Any], *, closely: bool = False) -> dict[str, Any] | None:
    """The fingerprint as of now if the content is the recorded one; compared where times differ, or ``closely``."""
    try:
        current = glance(path)
        same = current == recorded["glance"] and not closely
        return recorded | {"glance": current} if same or digest(path) == recorded["checksum"] else None
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}") from None
