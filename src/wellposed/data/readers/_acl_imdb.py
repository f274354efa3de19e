"""The reviews of the Large Movie Review Dataset, aclImdb: one file each, named ``ID_RATING.txt``."""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path

from wellposed.data.store import checksum_of
from wellposed.errors import DataError, UnknownNameError

FOLDERS = ("test/neg", "test/pos", "train/neg", "train/pos")

_NAME = re.compile(r"(0|[1-9][0-9]{0,8})_(10|[0-9])\.txt", re.ASCII)
_RATINGS = {"neg": range(1, 5), "pos": range(7, 11)}
_LONGEST = 1 << 20  # bytes; the longest official review has fewer than 14,000


def read_reviews(folder: Path, split: str) -> list[tuple[str, int, str]]:
    """The reviews of ``train`` or ``test`` below ``folder``, the one called aclImdb: text, label and name of each.

    In this order: the negative ones (label 0), then the positive ones (label 1), by number in each. The name is
    the path below the split, such as ``neg/127_3.txt``. How many there are is for the caller to check: 12,500 of each.
    Hidden files, which some systems leave, are passed over; any other file that is no review is an error, for a folder
    that somebody added to is not the published one. Texts are exactly the bytes of the files, as UTF-8.
    """
    if split not in ("train", "test"):
        raise UnknownNameError("split", split, ["train", "test"])
    return [
        (_text(path), label, f"{sentiment}/{path.name}")
        for label, sentiment in enumerate(_RATINGS)
        for path in _files(Path(folder) / split / sentiment, sentiment)
    ]


def digest_of_reviews(folder: Path) -> str:
    """One checksum over the names and contents of all reviews of both splits below ``folder``, called aclImdb.

    It is that of a list of checksums, so that it can be taken without this library as well, in that folder:
    ``find train/neg train/pos test/neg test/pos -type f ! -name '.*' | LC_ALL=C sort | xargs sha256sum | sha256sum``
    """
    total = hashlib.sha256()
    for part in FOLDERS:
        for name in sorted(name for name in os.listdir(Path(folder) / part) if not name.startswith(".")):
            checksum = checksum_of(Path(folder) / part / name).removeprefix("sha256:")
            total.update(os.fsencode(f"{checksum}  {part}/{name}\n"))
    return f"sha256:{total.hexdigest()}"


def _files(folder: Path, sentiment: str) -> list[Path]:
    try:
        names = [name for name in os.listdir(folder) if not name.startswith(".")]
    except OSError as error:
        raise DataError(f"cannot read {folder}: {error.strerror or error}; unpack aclImdb_v1.tar.gz there") from None
    numbered: dict[int, str] = {}
    for name in names:
        number = _number(folder, name, sentiment)
        if number in numbered:
            raise DataError(f"{folder} has review {number} twice, {numbered[number]} and {name}: unpack it again")
        numbered[number] = name
    return [folder / numbered[number] for number in sorted(numbered)]


def _number(folder: Path, name: str, sentiment: str) -> int:
    parts = _NAME.fullmatch(name)
    if not parts:
        raise DataError(f"{folder / name} is no review: those are called ID_RATING.txt; move it away")
    ratings = _RATINGS[sentiment]
    if int(parts[2]) not in ratings:
        raise DataError(
            f"{folder / name} has the rating {parts[2]}, and those in {sentiment} have {ratings[0]} to {ratings[-1]}: "
            "it lies in the wrong folder; unpack aclImdb_v1.tar.gz again"
        )
    return int(parts[1])


def _text(path: Path) -> str:
    try:
        with open(path, "rb", buffering=0) as file:
            content = file.read(_LONGEST + 1)
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}; unpack aclImdb_v1.tar.gz again") from None
    if len(content) > _LONGEST:
        raise DataError(f"{path} has more than {_LONGEST} bytes, and no review has: unpack aclImdb_v1.tar.gz again")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path} is not UTF-8 at byte {error.start}: it is damaged; unpack aclImdb_v1.tar.gz again"
        ) from None
