"""Pairs of papers are read as Long Range Arena's loader reads them."""

from __future__ import annotations

import pytest

from wellposed.data.readers._aan import Pair, read_pairs
from wellposed.errors import DataError


@pytest.fixture
def written(tmp_path):
    def write(content: bytes):
        path = tmp_path / "new_aan_pairs.eval.tsv"
        path.write_bytes(content)
        return path

    return write


def test_the_columns_are_taken_as_they_are(written):
    quoted = '1.0\tP05-1\tP06-2\t"He said \u2028 ""so"\tcaf\u00e9 \x0b\r x\n'.encode()
    literal = b"0.0\tA\tB\tb'one\\n'\tb\"two's\"\r\n"
    pairs = list(read_pairs(written(quoted + literal + b"1\tA\tB\t\tend")))
    assert pairs == [
        Pair(1, "P05-1", "P06-2", '"He said \u2028 ""so"', "caf\u00e9 \x0b\r x"),
        Pair(0, "A", "B", "b'one\\n'", 'b"two\'s"'),
        Pair(1, "A", "B", "", "end"),
    ]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"1.0\tA\tB\n", "no texts: .*only_ids"),
        (b"1.0\tA\tB\ttext\n", "has 4 columns"),
        (b"1.0\tA\tB\ttext\tmore\tmost\n", "has 6 columns"),
        (b"\n", "has 1 columns"),
        (b"label\tid1\tid2\ttext1\ttext2\n", "label 'label'"),
        (b"0.5\tA\tB\tone\ttwo\n", "label '0.5'"),
        (b"nan\tA\tB\tone\ttwo\n", "label 'nan'"),
        (b"1.0\tA\tB\tcaf\xe9\ttwo\n", "UTF-8 at byte 11"),
    ],
)
def test_a_bad_line_is_named(written, line, reason):
    with pytest.raises(DataError, match=f"tsv, line 3: .*{reason}"):
        list(read_pairs(written(b"1.0\tA\tB\tone\ttwo\n" * 2 + line)))


def test_a_line_without_end_is_not_read_whole(written):
    with pytest.raises(DataError, match="line 1: has more than"):
        list(read_pairs(written(bytes(1 << 26))))


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(DataError, match="unpack lra_release"):
        list(read_pairs(tmp_path / "none.tsv"))
