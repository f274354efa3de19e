"""IMDB's tree of files, a small one written here."""

from __future__ import annotations

from pathlib import Path

import pytest

from wellposed.data import Text, load
from wellposed.data.tasks import text
from wellposed.errors import ArgumentError, DataError

EACH = 20


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for split in ("train", "test"):
        for side, rating in (("neg", 2), ("pos", 9)):
            folder = tmp_path / "aclImdb" / split / side
            folder.mkdir(parents=True)
            for k in range(EACH):
                words = f"{split} {side} {k}: <br />Ünïcode 🎬\n" + "x" * (10 * k)
                (folder / f"{k}_{rating}.txt").write_text(words, encoding="utf-8")
    monkeypatch.setattr(text, "_EACH", EACH)
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


def test_a_file_that_changes_is_noticed(root: Path):
    before = load(Text(min_count=1), root, "test")[0][0]
    path = root / "aclImdb" / "test" / "neg" / "0_2.txt"
    path.write_text("another review")
    after = load(Text(min_count=1), root, "test")
    assert after.vocabulary is not None
    assert after[0][0].tolist() != before.tolist()
    assert len(after[0][0]) == len("another review") + 1


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
    with pytest.raises(DataError, match=r"aclImdb/train/neg: run 'wellposed data fetch text --root"):
        load("text", root / "elsewhere")
    with pytest.raises(ArgumentError, match="need length >= 2 and min_count >= 1, got 1 and 15"):
        Text(length=1)
