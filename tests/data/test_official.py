"""The official files, where ``WELLPOSED_TEST_DATA`` names a folder that holds them: published counts and statistics."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
import torch

from wellposed.data import Text, held_out, load, verify
from wellposed.errors import DataError

FOLDERS = ("train/neg", "train/pos", "test/neg", "test/pos")

MNIST_TRAIN = [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
MNIST_TEST = [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]


@pytest.fixture
def root(official: Path, tmp_path: Path) -> Path:
    """The official files, with an empty place for what is prepared."""
    for entry in official.iterdir():
        if entry.name != "prepared":
            (tmp_path / entry.name).symlink_to(entry)
    return tmp_path


def histogram(root: Path, name: str, *splits: str, **options: object) -> list[int]:
    return sum(torch.bincount(load(name, root, split, **options).y, minlength=2) for split in splits).tolist()  # pyright: ignore[reportAttributeAccessIssue]


def raw(root: Path, name: str, *splits: str, **options: object) -> np.ndarray:
    return np.concatenate([load(name, root, split, **options).rows.values.numpy() for split in splits])


def unpickled(root: Path, *names: str) -> np.ndarray:
    """By Python's own reader: these files are trusted here."""
    parts = []
    for name in names:
        with (root / "cifar-10-batches-py" / name).open("rb") as file:
            parts.append(pickle.load(file, encoding="bytes")[b"data"])
    return np.concatenate(parts).reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)


def test_cifar(root: Path):
    Image = pytest.importorskip("PIL.Image")
    for name in ("image", "scifar"):
        assert histogram(root, name, "train", "val") == [5000] * 10
        assert histogram(root, name, "test") == [1000] * 10
        assert [len(load(name, root, split)) for split in ("train", "val", "test")] == [45_000, 5_000, 10_000]
        verify(name, root)
    grey = raw(root, "image", "train", "val") / 255
    assert grey.mean() == pytest.approx(0.480861, abs=5e-7)
    assert grey.std() == pytest.approx(0.239191, abs=5e-7)
    official = unpickled(root, "test_batch")
    assert np.array_equal(raw(root, "scifar", "test").reshape(-1, 32, 32, 3), official)
    by_pillow = np.stack([np.asarray(Image.fromarray(picture).convert("L")) for picture in official])
    assert np.array_equal(raw(root, "image", "test").reshape(-1, 32, 32), by_pillow)
    colours = raw(root, "scifar", "train", "val") / 255
    np.testing.assert_allclose(colours.mean((0, 1)), [0.4914, 0.4822, 0.4465], atol=5e-5)
    np.testing.assert_allclose(colours.std((0, 1)), [0.2470, 0.2435, 0.2616], atol=5e-5)
    assert np.array_equal(raw(root, "scifar", "train", colour="grey"), raw(root, "image", "train"))


def test_mnist(root: Path):
    assert histogram(root, "smnist", "train", "val") == MNIST_TRAIN
    assert histogram(root, "smnist", "test") == MNIST_TEST
    pixels = raw(root, "smnist", "train", "val") / 255
    assert pixels.mean() == pytest.approx(0.1307, abs=5e-5)
    assert pixels.std() == pytest.approx(0.3081, abs=5e-5)
    permuted = raw(root, "smnist", "test", permuted=True)
    assert np.array_equal(np.sort(permuted, axis=1), np.sort(raw(root, "smnist", "test"), axis=1))
    verify("smnist", root)


def test_imdb(root: Path):
    train, val, test = (load("text", root, split) for split in ("train", "val", "test"))
    assert (len(train), len(val), len(test)) == (22_500, 2_500, 25_000)
    assert histogram(root, "text", "train", "val") == [12_500, 12_500]
    assert histogram(root, "text", "test") == [12_500, 12_500]
    assert train.vocabulary is not None
    assert len(train.vocabulary) == 134
    counts: dict[str, int] = {}
    for path in sorted((root / "aclImdb" / "train").glob("[np]*/*.txt")):
        for character in path.read_bytes().decode()[:4095]:
            counts[character] = counts.get(character, 0) + 1
    assert set(train.vocabulary.tokens[3:]) == {c for c, count in counts.items() if count >= 15}
    assert max(int(part.lengths.max()) for part in (train, val, test)) == 4096
    first = (root / "aclImdb" / "test" / "neg" / "0_2.txt").read_bytes().decode()
    decoded = test.vocabulary.decode(test[0][0].tolist()) if test.vocabulary else ""
    assert "".join(c if c in train.vocabulary.tokens else "\ufffd" for c in first[:4095]) == decoded
    verify("text", root)


def test_reviews_of_imdb_that_stand_in_two_splits(root: Path):
    """What the page of Text says about them."""
    contents = {
        split: [path.read_bytes() for side in ("neg", "pos") for path in by_number(root / "aclImdb" / split / side)]
        for split in ("train", "test")
    }
    rows = held_out(25_000, 0.1)
    train, val = ({contents["train"][row] for row in part} for part in rows)
    assert sum(review in train | val for review in contents["test"]) == 123
    assert sum(review in train for review in contents["test"]) == 103
    assert sum(review in val for review in contents["test"]) == 20
    assert sum(contents["train"][row] in train for row in rows[1]) == 17


def by_number(folder: Path) -> list[Path]:
    return sorted(folder.iterdir(), key=lambda path: int(path.stem.partition("_")[0]))


def test_a_single_bit_of_imdb_counts(root: Path, tmp_path_factory: pytest.TempPathFactory):
    """Links to the official reviews, of which one is a copy with the last bit changed."""
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    for part in FOLDERS:
        (elsewhere / "aclImdb" / part).mkdir(parents=True)
        for path in (root / "aclImdb" / part).iterdir():
            (elsewhere / "aclImdb" / part / path.name).symlink_to(path)
    Text().check(elsewhere)
    last = elsewhere / "aclImdb" / "test" / "pos" / "12499_10.txt"
    content = last.read_bytes()
    last.unlink()
    last.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(DataError, match="is not as published: the digest"):
        Text().check(elsewhere)


def test_peerread(root: Path):
    parts = [load("retrieval-peerread", root, split) for split in ("train", "val", "test")]
    total = sum(map(len, parts))
    assert sum(int(part.y.sum()) for part in parts) * 2 == total
    assert all(part.info.source == "stand-in" for part in parts)
    assert all(int(part.lengths.max()) <= 4000 for part in parts)
