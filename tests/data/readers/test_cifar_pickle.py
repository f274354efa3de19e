"""Batches of CIFAR-10 are read as published, and no stream whatever makes the reader run anything."""

from __future__ import annotations

import copyreg
import pickle
import struct
from pathlib import Path

import numpy as np
import pytest

from wellposed.data.download._sources import CIFAR10_FILES
from wellposed.data.readers._cifar_pickle import read_batch
from wellposed.data.store._checksum import verify
from wellposed.errors import DataError

COUNT = 12
IMAGES = np.random.default_rng(0).integers(0, 256, (COUNT, 3, 32, 32), dtype=np.uint8)
LABELS = [i % 10 for i in range(COUNT)]
RECONSTRUCT = b"cnumpy.core.multiarray\n_reconstruct\n"
NDARRAY = b"cnumpy\nndarray\n"
DTYPE = b"cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"


def array(content: bytes = IMAGES.tobytes(), *, shape: bytes = b"K\x0cM\x00\x0c\x86", dtype: bytes = DTYPE) -> bytes:
    """An array as numpy pickled it under Python 2."""
    made = RECONSTRUCT + b"q\x07" + NDARRAY + b"q\x08K\x00\x85U\x01b\x87Rq\t"
    return made + b"(K\x01" + shape + dtype + b"\x89T" + struct.pack("<I", len(content)) + content + b"tb"


def batch(data: bytes | None = None, labels: list[int] = LABELS, *, before: bytes = b"") -> bytes:
    """A small batch in the byte layout of the official files, with ``before`` slipped in as one more value."""
    stream = b"\x80\x02}q\x01(U\x0bbatch_labelq\x02U\x05smallq\x03U\x06labelsq\x04]q\x05("
    stream += b"".join(b"K" + bytes([label]) for label in labels) + b"e"
    stream += b"U\x05extra" + before if before else b""
    stream += b"U\x04dataq\x06" + (array() if data is None else data)
    return stream + b"U\tfilenamesq\x0c]q\r(" + b"".join(b"U\x01ar\x0e\x01\x00\x00" for _ in labels) + b"eu."


@pytest.fixture
def written(tmp_path):
    def write(content: bytes) -> Path:
        path = tmp_path / "data_batch_1"
        path.write_bytes(content)
        return path

    return write


def test_the_official_layout_is_read(written):
    images, labels = read_batch(written(batch()))
    assert images.shape == (COUNT, 3, 32, 32)
    assert images.dtype == labels.dtype == np.uint8
    np.testing.assert_array_equal(images, IMAGES)
    assert labels.tolist() == LABELS
    images[0] = 0  # it is the caller's own


def test_the_official_files(official):
    counts = np.zeros(10, dtype=int)
    for name, checksum in CIFAR10_FILES.items():
        images, labels = read_batch(verify(official / name, checksum))
        assert images.shape == (10_000, 3, 32, 32)
        counts += np.bincount(labels, minlength=10)
    assert counts.tolist() == [6000] * 10


def harmful(canary: Path) -> dict[str, tuple[bytes, str]]:
    """Streams that would create ``canary`` if they were run, and what the refusal names."""
    command = f"touch {canary}".encode()
    text = b"U" + bytes([len(command)]) + command
    code = f"open({str(canary)!r}, 'w')".encode()
    source = b"U" + bytes([len(code)]) + code
    return {
        "a global": (b"cos\nsystem\n" + text + b"\x85R", "os.system"),
        "a builtin": (b"c__builtin__\neval\n" + source + b"\x85R", "eval"),
        "a builtin of Python 3": (b"cbuiltins\nexec\n" + source + b"\x85R", "builtins.exec"),
        "a name on the way to numpy": (b"cnumpy.core.multiarray\nscalar\n" + text + b"\x85R", "multiarray.scalar"),
        "a dotted name": (b"cnumpy\ncore.multiarray.os.system\n" + text + b"\x85R", "numpy.core"),
        "a loader of numpy": (b"cnumpy\nload\n" + text + b"\x85R", "numpy.load"),
        "a name from the stack": (b"U\x02osU\x06system\x93" + text + b"\x85R", "STACK_GLOBAL"),
        "an instance": (b"(" + text + b"ios\nsystem\n", "INST"),
        "an object": (b"(cos\nsystem\n" + text + b"o", "OBJ"),
        "a new object": (b"cnumpy\ndtype\n)\x81", "EMPTY_TUPLE|NEWOBJ"),
        "an extension": (b"\x82\xf0" + text + b"\x85R", "EXT1"),
        "a longer extension": (b"\x83\xf0\x00" + text + b"\x85R", "EXT2"),
        "a persistent identifier": (b"Pos.system\n", "PERSID"),
        "a persistent object": (text + b"Q", "BINPERSID"),
        "a call in a call": (RECONSTRUCT + NDARRAY + b"cos\nsystem\n" + text + b"\x85R\x85U\x01b\x87R", "os.system"),
        "a call of what a call gave": (DTYPE + text + b"\x85R", "not callable"),
        "other arguments": (RECONSTRUCT + text + b"K\x00\x85U\x01b\x87R", "another way"),
        "a dtype of objects": (b"cnumpy\ndtype\nU\x02O8K\x00K\x01\x87R", "O8"),
        "a state for a stand-in": (b"cnumpy\ndtype\n}(U\x08__call__K\x01ub", "no batch"),
        "a slot for a stand-in": (RECONSTRUCT + b"N}(U\x09__class__K\x01u\x86b", "no batch"),
        "a state for a dtype": (DTYPE + b"}(U\x01aK\x01ub", "plain bytes"),
        "items for a stand-in": (b"cnumpy\nndarray\n(K\x01K\x02u", "no batch"),
        "a table beyond memory": (b"K\x01r\xff\xff\xff\x7f", "beyond"),
        "text of Python 3": (b"X\x01\x00\x00\x00a", "BINUNICODE"),
        "a string that is longer than the file": (b"T\xff\xff\xff\x7fabc", "no batch"),
        "an opcode that is none": (b"\xff", "no batch"),
        "an integer of text": (b"I" + b"9" * 5000 + b"\n", "no batch"),
    }


@pytest.mark.parametrize("kind", harmful(Path("canary")))
def test_nothing_is_run(written, tmp_path, kind):
    canary = tmp_path / "canary"
    stream, named = harmful(canary)[kind]
    with pytest.raises(DataError, match=named):
        read_batch(written(batch(before=stream)))
    with pytest.raises(DataError, match=named):
        read_batch(written(batch(data=stream) + bytes(3 * 32 * 32)))
    assert not canary.exists()


def test_an_extension_that_the_process_knows_is_not_run(written, tmp_path, monkeypatch):
    """Registered codes are kept by pickle itself, and found without asking for their names."""
    import os

    canary = tmp_path / "canary"
    copyreg.add_extension("os", "system", 0xF0)
    try:
        assert pickle.loads(b"\x82\xf0.") is os.system
        stream, _ = harmful(canary)["an extension"]
        with pytest.raises(DataError, match="EXT1"):
            read_batch(written(batch(before=stream)))
    finally:
        copyreg.remove_extension("os", "system", 0xF0)
        copyreg.clear_extension_cache()
    assert not canary.exists()


def test_a_pickle_of_today_that_runs_a_command_is_refused(written, tmp_path):
    canary = tmp_path / "canary"

    class Harm:
        def __reduce__(self):
            import os

            return os.system, (f"touch {canary}",)

    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        with pytest.raises(DataError):
            read_batch(written(pickle.dumps({"data": Harm(), "pad": b"x" * 4000}, protocol)))
    assert not canary.exists()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (batch(labels=[10] * COUNT), "label 10"),
        (batch(labels=[1] * 5), "12 images and 5 labels"),
        (batch(data=array(bytes(3072), shape=b"K\x01M\x01\x0c\x86")), "shape"),
        (batch(data=array(bytes(3072))), "shape"),
        (batch(data=array(shape=b"K\x0c\x85")), "has not 2 parts"),
        (batch(data=array(dtype=b"N")), "plain bytes"),
        (batch(data=b"K\x01") + bytes(4000), "data and labels"),
        (b"\x80\x02]." + bytes(4000), "data and labels"),
        (batch()[:-2000], "no batch"),
        (b"", "0 bytes"),
    ],
)
def test_what_is_no_batch(written, content, reason):
    with pytest.raises(DataError, match=reason):
        read_batch(written(content))


def test_a_file_that_is_too_large_is_not_read(written):
    path = written(b"")
    with path.open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(DataError, match="1099511627776 bytes"):
        read_batch(path)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(DataError, match="unpack cifar-10-python"):
        read_batch(tmp_path / "data_batch_1")
