"""Reviews come in one order, with the label of their folder, and strange files are noticed."""

from __future__ import annotations

import time

import pytest

from wellposed.data.readers._acl_imdb import read_reviews
from wellposed.errors import DataError, UnknownNameError


@pytest.fixture
def folder(tmp_path):
    for name in ("neg/10_1.txt", "neg/9_4.txt", "pos/0_10.txt", "pos/2_7.txt"):
        path = tmp_path / "train" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(f"{name}: caf\u00e9<br />\r\n".encode())
    return tmp_path


def test_the_order_is_by_class_and_number(folder):
    (folder / "train/neg/.DS_Store").touch()
    reviews = read_reviews(folder, "train")
    assert [(label, name) for _, label, name in reviews] == [
        (0, "neg/9_4.txt"),
        (0, "neg/10_1.txt"),
        (1, "pos/0_10.txt"),
        (1, "pos/2_7.txt"),
    ]
    assert reviews[0][0] == "neg/9_4.txt: caf\u00e9<br />\r\n"


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("neg/3_7.txt", b"", "rating 7"),
        ("pos/3_4.txt", b"", "rating 4"),
        ("neg/3_0.txt", b"", "rating 0"),
        ("neg/3_5.txt", b"", "rating 5"),
        ("neg/urls.txt", b"", "no review"),
        ("neg/03_1.txt", b"", "no review"),
        ("neg/\u0663_1.txt", b"", "no review"),
        ("neg/3_1.txt.bak", b"", "no review"),
        ("neg/9_3.txt", b"", "review 9 twice"),
        ("neg/3_1.txt", b"caf\xe9", "not UTF-8 at byte 3"),
        ("neg/3_1.txt", b"x" * (2 << 20), "more than"),
    ],
)
def test_what_is_no_review(folder, name, content, reason):
    (folder / "train" / name).write_bytes(content)
    with pytest.raises(DataError, match=reason):
        read_reviews(folder, "train")


def test_a_folder_in_the_place_of_a_review(folder):
    (folder / "train/neg/3_1.txt").mkdir()
    with pytest.raises(DataError, match="cannot read"):
        read_reviews(folder, "train")


def test_splits_have_names(folder):
    with pytest.raises(UnknownNameError, match="train"):
        read_reviews(folder, "trian")
    with pytest.raises(DataError, match="unpack aclImdb_v1"):
        read_reviews(folder, "test")


def test_the_official_files(official):
    for split in ("train", "test"):
        start = time.perf_counter()
        labels = [label for _, label, _ in read_reviews(official / "aclImdb", split)]
        assert labels == [0] * 12_500 + [1] * 12_500
        assert time.perf_counter() - start < 60
