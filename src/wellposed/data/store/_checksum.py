"""Checksums, written ``md5:...`` or ``sha256:...`` as their publishers give them."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from wellposed.errors import DataError

_DIGITS = {"md5": 32, "sha256": 64}


def algorithm_of(checksum: str) -> str:
    """The name before the colon; the checksum is refused where it is not well formed."""
    name, _, digits = checksum.partition(":")
    if name in _DIGITS and re.fullmatch(rf"[0-9a-f]{{{_DIGITS[name]}}}", digits):
        return name
    raise DataError(f"{checksum!r} is no checksum: write md5: and 32 hexadecimal digits, or sha256: and 64")


def checksum_of(path: Path, *, algorithm: str = "sha256") -> str:
    """The checksum of a file, in the form the tables have."""
    digest = hashlib.new(algorithm, usedforsecurity=False)
    try:
        with path.open("rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}") from None
    return f"{algorithm}:{digest.hexdigest()}"


def verify(path: Path, checksum: str) -> Path:
    """The path, where the file has this checksum; an error that names both sums where it has another."""
    found = checksum_of(path, algorithm=algorithm_of(checksum))
    if found != checksum:
        raise DataError(
            f"{path} has the checksum {found}, and its publisher says {checksum}: it is damaged or another file; "
            "move it away and fetch it again"
        )
    return path
