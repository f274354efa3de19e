"""CIFAR-10 and MNIST in their official layouts, small ones written here."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
import torch

from wellposed.data import SCIFAR, SMNIST, Image, Task, load
from wellposed.data.readers.cifar import grey
from wellposed.data.store._checksum import checksum_of
from wellposed.data.tasks._task import held_out
from wellposed.errors import ArgumentError, DataError

RNG = np.random.default_rng(0)


def cifar_batch(images: np.ndarray, labels: np.ndarray) -> bytes:
    """As Python 2 wrote them: {b'labels': [...], b'data': uint8 array}, protocol 2."""
    data = images.transpose(0, 3, 1, 2).reshape(len(images), 3072).tobytes()
    head = b"\x80\x02}q\x01(U\x06labelsq\x02]q\x03(" + b"".join(b"K" + bytes([v]) for v in labels) + b"e"
    array = b"U\x04dataq\x04cnumpy.core.multiarray\n_reconstruct\nq\x05cnumpy\nndarray\nq\x06K\x00\x85U\x01b\x87Rq\x07"
    shape = b"(K\x01M" + struct.pack("<H", len(images)) + b"M\x00\x0c\x86"
    dtype = b"cnumpy\ndtype\nq\x08U\x02u1K\x00K\x01\x87Rq\x09(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
    return head + array + shape + dtype + b"\x89T" + struct.pack("<I", len(data)) + data + b"tbu."


@pytest.fixture
def cifar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, np.ndarray, np.ndarray]:
    folder = tmp_path / "cifar-10-batches-py"
    folder.mkdir()
    images, labels = RNG.integers(256, size=(60, 32, 32, 3), dtype=np.uint8), RNG.integers(10, size=60, dtype=np.uint8)
    sums: dict[str, str | None] = {}
    for k, name in enumerate([*(f"data_batch_{k}" for k in range(1, 6)), "test_batch"]):
        rows = slice(10 * k, 10 * k + 10)
        (folder / name).write_bytes(cifar_batch(images[rows], labels[rows]))
        sums[f"cifar-10-batches-py/{name}"] = checksum_of(folder / name, algorithm="md5")
    for task in (Image, SCIFAR):
        monkeypatch.setattr(task, "published", sums)
    return tmp_path, images, labels


def together(task: Task, root: Path) -> tuple[np.ndarray, np.ndarray]:
    parts = [load(task, root, split) for split in ("train", "val")]
    values = [part.rows.values.numpy() for part in parts]
    return np.concatenate(values), np.concatenate([part.y.numpy() for part in parts])


def test_cifar_in_the_order_of_its_files(cifar: tuple[Path, np.ndarray, np.ndarray]):
    root, images, labels = cifar
    rows = np.concatenate(held_out(50, 0.1))
    for task, pictures in ((SCIFAR(), images), (Image(), grey(images)), (SCIFAR(colour="grey"), grey(images))):
        x, y = together(task, root)
        assert np.array_equal(x, pictures[rows].reshape(50, 1024, -1))
        assert np.array_equal(y, labels[rows])
        test = load(task, root, "test")
        assert np.array_equal(test.rows.values.numpy(), pictures[50:].reshape(10, 1024, -1))
    assert len(load(Image(validation=0.2), root, "val")) == 10


def test_pixels_come_normalised(cifar: tuple[Path, np.ndarray, np.ndarray]):
    """By the numbers everyone uses: (x - 122.6/255) / (61/255) in grey; means and deviations of the colours."""
    root, images, labels = cifar
    x, y = load("image", root, "test")[3]
    np.testing.assert_allclose(x[:, 0], (grey(images)[53].ravel() - 122.6) / 61, atol=1e-5)
    assert int(y) == labels[53]
    x, _ = load("scifar", root, "test")[3]
    mean, std = np.array([0.4914, 0.4822, 0.4465]), np.array([0.2470, 0.2435, 0.2616])
    np.testing.assert_allclose(x, (images[53].reshape(1024, 3) / 255 - mean) / std, atol=1e-5)
    x, _ = load("scifar", root, "test", colour="grey")[3]
    np.testing.assert_allclose(x[:, 0], (grey(images)[53].ravel() / 255 - 0.480861) / 0.239191, atol=1e-5)


def test_what_is_handed_out_is_the_users_own(cifar: tuple[Path, np.ndarray, np.ndarray]):
    for task in ("image", "scifar"):
        data = load(task, cifar[0])
        x, y = data[0]
        x.zero_()
        y.fill_(99)
        assert data[0][0].any()
        assert data[0][1] != 99


def test_grey_is_pillows(cifar: tuple[Path, np.ndarray, np.ndarray]):
    from PIL import Image as Pillow

    steps = np.arange(0, 256, 5, dtype=np.uint8)
    cube = np.stack(np.meshgrid(steps, steps, steps), axis=-1).reshape(-1, 52, 3)
    assert np.array_equal(grey(cube)[..., 0], np.asarray(Pillow.fromarray(cube).convert("L")))


def test_a_file_that_is_not_the_published_one_is_refused(cifar: tuple[Path, np.ndarray, np.ndarray]):
    root, images, labels = cifar
    path = root / "cifar-10-batches-py" / "data_batch_3"
    path.write_bytes(cifar_batch(images[:10], labels[::-1][:10]))
    with pytest.raises(DataError, match=r"data_batch_3 has the checksum md5:.* and its publisher says md5:"):
        load("image", root)
    path.unlink()
    with pytest.raises(DataError, match=r"there is no .*data_batch_3: run 'wellposed data fetch image --root"):
        load("image", root)
    assert list((root / "prepared").iterdir()) == []


def test_a_malicious_pickle_runs_nothing_even_with_the_right_checksum(
    cifar: tuple[Path, np.ndarray, np.ndarray], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    root, images, labels = cifar
    path = root / "cifar-10-batches-py" / "data_batch_1"
    canary = tmp_path / "canary"
    code = f"open({str(canary)!r}, 'w')".encode()
    call = b"c__builtin__\neval\n(U" + bytes([len(code)]) + code + b"tR0"
    content = cifar_batch(images[:10], labels[:10])
    path.write_bytes(content[:2] + call + content[2:])
    monkeypatch.setitem(Image.published, "cifar-10-batches-py/data_batch_1", checksum_of(path, algorithm="md5"))
    with pytest.raises(DataError, match="is no batch of CIFAR-10"):
        load("image", root)
    assert not canary.exists()


def test_mnist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    folder = tmp_path / "MNIST" / "raw"
    folder.mkdir(parents=True)
    images = {"train": RNG.integers(256, size=(20, 28, 28), dtype=np.uint8)}
    images["t10k"] = RNG.integers(256, size=(5, 28, 28), dtype=np.uint8)
    sums: dict[str, str | None] = {}
    for part, pictures in images.items():
        labels = np.arange(len(pictures), dtype=np.uint8) % 10
        shape = struct.pack(">IIII", 2051, *pictures.shape)
        (folder / f"{part}-images-idx3-ubyte").write_bytes(shape + pictures.tobytes())
        (folder / f"{part}-labels-idx1-ubyte").write_bytes(struct.pack(">II", 2049, len(labels)) + labels.tobytes())
    for name in SMNIST.published:
        sums[name] = checksum_of(tmp_path / name, algorithm="md5")
    monkeypatch.setattr(SMNIST, "published", sums)
    x, y = together(SMNIST(), tmp_path)
    rows = np.concatenate(held_out(20, 0.1))
    assert np.array_equal(x[..., 0], images["train"].reshape(20, 784)[rows])
    assert np.array_equal(y, rows % 10)
    plain, permuted = (load(SMNIST(permuted=p), tmp_path, "test").rows[2] for p in (False, True))
    assert not np.array_equal(plain, permuted)
    order = torch.randperm(784, generator=torch.Generator().manual_seed(42))
    assert np.array_equal(plain[order], permuted)
    x, _ = load(SMNIST(), tmp_path, "test")[2]
    np.testing.assert_allclose(x[:, 0], (images["t10k"][2].ravel() / 255 - 0.1307) / 0.3081, atol=1e-5)


def test_held_out_parts_are_those_of_random_split():
    from torch.utils.data import random_split

    parts = random_split(range(1003), [803, 100, 100], torch.Generator().manual_seed(42))  # pyright: ignore[reportArgumentType]
    assert held_out(1003, 0.1, 0.1) == [sorted(part.indices) for part in parts]
    for shares in ((0.0,), (1.0,), (0.5, 0.5), (-0.1,)):
        with pytest.raises(ArgumentError, match="between 0 and 1"):
            held_out(10, *shares)
