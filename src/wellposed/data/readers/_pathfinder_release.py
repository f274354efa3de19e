"""The pictures of Pathfinder as the Long Range Arena publishes them: PNG files, and lists of them with labels."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from jaxtyping import UInt8

from wellposed.errors import DataError, MissingExtraError

_EMPTY = "pathfinder32/curv_baseline/imgs/0/sample_172.png"


def read_release(
    folder: Path, size: int, progress: Callable[[int, int], None]
) -> tuple[UInt8[np.ndarray, "item length 1"], UInt8[np.ndarray, " item"]]:
    """Pictures and labels in the numeric order of the lists in ``metadata``, but for the one published empty."""
    lists = sorted((folder / "metadata").glob("[!.]*.npy"), key=_number)
    if not lists:
        raise DataError(f"{folder / 'metadata'} holds no lists of pictures (.npy): unpack the release again")
    images, labels = [], []
    first_line: dict[Path, str] = {}
    for done, path in enumerate(lists):
        progress(done, len(lists))
        for line, (picture, label) in enumerate(_listed(path, folder), 1):
            if (earlier := first_line.setdefault(picture, where := f"{path}, line {line}")) != where:
                raise DataError(f"{where}: {picture} is listed already ({earlier}): unpack the release again")
            if picture.as_posix().endswith(_EMPTY) and picture.exists() and not picture.stat().st_size:
                continue
            images.append(_pixels(picture, size))
            labels.append(label)
    if not images:
        raise DataError(f"the lists in {folder / 'metadata'} name no pictures: unpack the release again")
    return np.stack(images)[..., None], np.array(labels, dtype=np.uint8)


def _number(path: Path) -> int:
    try:
        return int(path.stem)
    except ValueError:
        raise DataError(f"{path} should be named by a number: unpack the release again") from None


def _listed(path: Path, folder: Path) -> list[tuple[Path, int]]:
    """The lists are plain text, whatever their name says: folder, file, number, label and parameters a line."""
    rows = []
    for number, line in enumerate(path.read_text(encoding="ascii", errors="replace").splitlines(), 1):
        words = line.split()
        named = Path(*words[:2])
        if len(words) < 4 or words[3] not in ("0", "1") or named.is_absolute() or ".." in named.parts:
            raise DataError(
                f"{path}, line {number}: expected folder, file, number and a label 0 or 1, got {line[:60]!r}"
            )
        rows.append((folder / named, int(words[3])))
    return rows


def _pixels(path: Path, size: int) -> UInt8[np.ndarray, " length"]:
    try:
        from PIL import Image, UnidentifiedImageError
    except ModuleNotFoundError:
        raise MissingExtraError("pillow", "data") from None
    try:
        with Image.open(path, formats=("PNG",)) as picture:
            if picture.size != (size, size):
                raise DataError(f"{path} has {picture.size[0]} x {picture.size[1]} pixels, not {size} x {size}")
            if picture.mode not in ("L", "P", "RGB", "RGBA", "1"):
                raise DataError(f"{path} has pixels of mode {picture.mode}, not of 8 bits")
            return np.asarray(picture.convert("L")).reshape(-1)
    except DataError:
        raise
    except (OSError, UnidentifiedImageError, Image.DecompressionBombError, SyntaxError, ValueError) as error:
        raise DataError(f"{path} cannot be read ({error}): unpack the release again") from None
