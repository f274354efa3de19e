"""IMDB's tree of files, a small one written here."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from wellposed.data import Text, load
from wellposed.errors import ArgumentError, DataError

EACH = 20


def digest(folder: Path) -> str:
    """As ``sha256sum`` of what ``sha256sum`` prints for the files in the order of their names."""
    paths = sorted(str(path.relative_to(folder)) for path in folder.glob("t*/[np]*/*.txt"))
    lines = (f"{hashlib.sha256((folder / path).read_bytes()).hexdigest()}  {path}\n" for path in paths)
    return f"sha256:{hashlib.sha256(''.join(lines).encode()).hexdigest()}"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for split in ("train", "test"):
        for side, rating in (("neg", 2), ("pos", 9)):
            folder = tmp_path / "aclImdb" / split / side
            folder.mkdir(parents=True)
            for k in range(EACH):
                words = f"{split} {side} {k}: <br />Ünïcode 🎬\n" + "x" * (10 * k)
                (folder / f"{k}_{rating}.txt").write_text(words, encoding="utf-8")
    monkeypatch.setattr(Text, "reviews_per_folder", EACH)
    monkeypatch.setattr(Text, "digest", digest(tmp_path / "aclImdb"))
    return tmp_path


def test_reviews_come_back_as_they_were(root: Path):
    task = Text(min_count=1, length=100)
    parts = {split: load(task, root, split) for split in ("train", "val", "test")}
    assert {split: len(part) for split, part in parts.items()} == {"train": 36, "val": 4, "test": 40}
    found = {}
    for split, part in parts.items():
        assert part.vocabulary is not None
        for i in range(len(part)):
            words = part.vocabulary.decode(part[i][0].tolist())
            found[words[:12]] = int(part.y[i])
            assert len(words) + 1 == int(part.lengths[i])
            assert words.startswith("test" if split == "test" else "train")
    assert {label for words, label in found.items() if "pos" in words} == {1}
    assert parts["train"].classes == ("negative", "positive")
    assert max(int(part.lengths.max()) for part in parts.values()) == 100


def test_rare_characters_are_unknown_and_cut_texts_do_not_count(root: Path):
    train = load(Text(min_count=10_000), root)
    assert train.vocabulary is not None
    assert train.vocabulary.tokens == ("<pad>", "<unk>", "<eos>")
    assert "x" not in getattr(load(Text(min_count=1, length=10), root).vocabulary, "tokens", ())


def test_a_file_that_changes_is_noticed_and_refused(root: Path):
    before = load(Text(min_count=1), root, "test")[0][0]
    path = root / "aclImdb" / "test" / "neg" / "0_2.txt"
    content = path.read_bytes()
    path.write_text("another review")
    with pytest.raises(DataError, match=r"test/neg is not what it was then; .*aclImdb is not as published"):
        load(Text(min_count=1), root, "test")
    path.write_bytes(content)
    assert load(Text(min_count=1), root, "test")[0][0].tolist() == before.tolist()


def flip(folder: Path) -> None:
    path = folder / "train" / "neg" / "3_2.txt"
    content = bytearray(path.read_bytes())
    content[0] ^= 1
    path.write_bytes(content)


def cut(folder: Path) -> None:
    path = folder / "test" / "pos" / "7_9.txt"
    path.write_bytes(path.read_bytes()[:-1])


def exchange(folder: Path) -> None:
    (folder / "train").rename(folder / "aside")
    (folder / "test").rename(folder / "train")
    (folder / "aside").rename(folder / "test")


def exchange_two(folder: Path) -> None:
    one, other = folder / "train" / "pos" / "1_9.txt", folder / "test" / "pos" / "2_9.txt"
    one.rename(folder / "aside")
    other.rename(one)
    (folder / "aside").rename(other)


def rate_anew(folder: Path) -> None:
    (folder / "train" / "pos" / "1_9.txt").rename(folder / "train" / "pos" / "1_8.txt")


@pytest.mark.parametrize("damage", [flip, cut, exchange, exchange_two, rate_anew])
def test_a_tree_that_looks_right_and_is_not_the_published_one_is_refused(root: Path, damage: Callable[[Path], None]):
    damage(root / "aclImdb")
    message = "aclImdb is not as published: the digest .* remove the folder, then run 'wellposed data fetch text"
    with pytest.raises(DataError, match=message):
        load(Text(min_count=1), root)
    assert list((root / "prepared").iterdir()) == []


def test_hidden_files_do_no_harm(root: Path):
    shutil.copy(root / "aclImdb" / "train" / "neg" / "0_2.txt", root / "aclImdb" / "train" / "neg" / "._0_2.txt")
    assert len(load(Text(min_count=1), root)) == 36


def test_mistakes(root: Path):
    path = root / "aclImdb" / "train" / "pos" / "3_9.txt"
    content = path.read_bytes()
    path.unlink()
    with pytest.raises(DataError, match="train/pos holds 19 reviews, published are 20: run 'wellposed"):
        load("text", root)
    path.write_bytes(b"\xff" + content)
    with pytest.raises(DataError, match=r"3_9\.txt is not UTF-8 at byte 0"):
        load("text", root)
    path.write_bytes(b"")
    with pytest.raises(DataError, match=r"3_9\.txt is empty or no file: run 'wellposed"):
        load("text", root)
    path.write_bytes(content)
    (path.parent / "99_9.txt").write_bytes(content)
    with pytest.raises(DataError, match="holds 21 reviews, published are 20: move away what is not published"):
        load("text", root)
    (root / "elsewhere").mkdir()
    with pytest.raises(DataError, match=r"aclImdb/train/neg: run 'wellposed data fetch text --root"):
        load("text", root / "elsewhere")
    with pytest.raises(ArgumentError, match="need length >= 2 and min_count >= 1, got 1 and 15"):
        Text(length=1)
