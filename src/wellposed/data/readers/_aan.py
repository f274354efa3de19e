"""The pairs of papers of Long Range Arena's retrieval task, ``new_aan_pairs.{train,eval,test}.tsv``.

Their loader (lra_benchmarks/matching/input_pipeline.py) takes five columns separated by tabs, without a header and
without quoting: a label as a float, two identifiers, two texts; S4's takes the same columns. In the copies that people
have, the texts may be written as literals of Python, ``b'...'`` with backslashes. Neither loader decodes those: the
prefix and the backslashes are characters of the sequence. Some later code does, and its numbers are of another task.
Here a text is what stands in the column.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import IO, NamedTuple

from wellposed.errors import DataError

_LONGEST = 1 << 25


class Pair(NamedTuple):
    """Two papers, and whether one cites the other."""

    label: int
    id1: str
    id2: str
    text1: str
    text2: str


def read_pairs(path: Path) -> Iterator[Pair]:
    """The pairs in the order of the file; a line that is none is an error with its number."""
    path = Path(path)
    try:
        with path.open("rb") as file:
            for number, line in enumerate(_lines(file), start=1):
                try:
                    yield _pair(line)
                except DataError as error:
                    raise DataError(f"{path}, line {number}: {error}") from None
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}; unpack lra_release.gz there") from None


def _lines(file: IO[bytes]) -> Iterator[bytes]:
    """Lines end in a newline, never in the other characters that Python's text files break at."""
    while line := file.readline(_LONGEST + 1):
        yield line


def _pair(line: bytes) -> Pair:
    if len(line) > _LONGEST:
        raise DataError(f"has more than {_LONGEST} bytes: this is no file of pairs")
    try:
        columns = line.removesuffix(b"\n").removesuffix(b"\r").decode("utf-8").split("\t")
    except UnicodeDecodeError as error:
        raise DataError(f"is not UTF-8 at byte {error.start} of the line: the file is damaged") from None
    if len(columns) == 3:
        raise DataError(
            "has a label and two identifiers but no texts: this is one of the release's lists of identifiers "
            "(only_ids), and the texts are in the files of the same names in tsv_data of lra_release.gz"
        )
    if len(columns) != 5:
        raise DataError(f"has {len(columns)} columns separated by tabs, and label, id1, id2, text1, text2 are five")
    return Pair(_label(columns[0]), *columns[1:])


def _label(text: str) -> int:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if value not in (0.0, 1.0):
        raise DataError(f"has the label {text[:40]!r}, and labels are 0 or 1; the files have no header")
    return int(value)
