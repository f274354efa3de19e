"""The files of MNIST are read, and damaged ones are noticed."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from wellposed.data.download._sources import MNIST_FILES
from wellposed.data.readers._idx import read_idx
from wellposed.data.store._checksum import verify
from wellposed.errors import DataError

SHAPES = st.one_of(st.tuples(st.integers(0, 9)), st.tuples(*[st.integers(0, 9)] * 3))


def idx(array: np.ndarray) -> bytes:
    return b"".join(n.to_bytes(4, "big") for n in (0x800 + array.ndim, *array.shape)) + array.tobytes()


@given(arrays(np.uint8, SHAPES), st.booleans())
def test_what_was_written_is_read(tmp_path_factory, array, packed):
    path = tmp_path_factory.mktemp("idx") / "images"
    if packed:
        path.with_name("images.gz").write_bytes(gzip.compress(idx(array)))
    else:
        path.write_bytes(idx(array))
    read = read_idx(path)
    assert read.dtype == np.uint8
    np.testing.assert_array_equal(read, array)


IMAGES = idx(np.arange(24, dtype=np.uint8).reshape(2, 3, 4))


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "starts with 0x00000000"),
        (b"\0\0\x0d\x03" + IMAGES[4:], "starts with 0x00000d03"),
        (IMAGES[:9], "truncated"),
        (IMAGES[:-1], "fewer bytes"),
        (IMAGES + b"x", "more bytes"),
        (IMAGES[:4] + b"\xff" * 12, "claims the shape"),
    ],
    ids=["empty", "of floats", "header", "short", "long", "huge"],
)
@pytest.mark.parametrize("packed", [False, True])
def test_a_damaged_file(tmp_path, content, reason, packed):
    path = tmp_path / ("images.gz" if packed else "images")
    path.write_bytes(gzip.compress(content) if packed else content)
    with pytest.raises(DataError, match=reason):
        read_idx(path)


@pytest.mark.parametrize("damage", [lambda x: x[:-9], lambda x: x[:-6] + b"\0" + x[-5:], lambda x: b"x" + x])
def test_a_damaged_gz(tmp_path, damage):
    path = tmp_path / "images.gz"
    path.write_bytes(damage(gzip.compress(IMAGES)))
    with pytest.raises(DataError, match="fetch it again"):
        read_idx(path)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(DataError, match=r"neither .*images nor .*images\.gz"):
        read_idx(tmp_path / "images")


def test_the_official_files(official: Path):
    folder = official / "MNIST" / "raw"
    arrays = {name: read_idx(verify(folder / name, checksum)) for name, checksum in MNIST_FILES.items()}
    assert [array.shape for array in arrays.values()] == [(60_000, 28, 28), (60_000,), (10_000, 28, 28), (10_000,)]
    assert arrays["train-labels-idx1-ubyte"].max() == 9
