"""Pairs of documents: the published tables of AAN."""

from __future__ import annotations

from pathlib import Path

import pytest

from wellposed.data import PairBatch, SequenceDataset, load
from wellposed.errors import DataError


def texts(dataset: SequenceDataset, item: int) -> tuple[str, str]:
    assert dataset.vocabulary is not None
    a, b, _ = dataset[item]
    return dataset.vocabulary.decode(a.tolist()), dataset.vocabulary.decode(b.tolist())


@pytest.mark.parametrize("prefix", [".", "tsv_data", "lra_release/lra_release/tsv_data"])
def test_published_tables(tmp_path: Path, prefix: str):
    folder = tmp_path / prefix
    folder.mkdir(parents=True, exist_ok=True)
    rows = [("1.0", "first text", "second, longer text"), ("0.0", "second, longer text", "b'third\\n'")]
    for part in ("train", "eval", "test"):
        lines = (f"{label}\tP1\tP2\t{a}\t{b}" for label, a, b in rows)
        (folder / f"new_aan_pairs.{part}.tsv").write_text("\n".join(lines) + "\n")
    val = load("retrieval", tmp_path, "val")
    assert val.info.source == "published"
    assert [texts(val, i) for i in range(2)] == [(a, b) for _, a, b in rows]
    assert val.y.tolist() == [1, 0]
    assert len(val.rows) == 3, "a document that occurs twice is kept once"
    batch = next(iter(val.batches(2, shuffle=False)))
    assert isinstance(batch, PairBatch)
    assert batch.lengths_a is not None
    assert batch.lengths_a.tolist() == [11, 20]
    assert texts(load("retrieval", tmp_path, "train", length=6), 0) == ("first", "secon")


def test_a_line_that_stands_twice_in_a_table_of_another_size_is_named(tmp_path: Path):
    for part in ("train", "eval", "test"):
        lines = ["1.0\tP1\tP2\tone\ttwo", "0.0\tP1\tP3\tone\tthree", "1.0\tP1\tP2\tone\ttwo"]
        (tmp_path / f"new_aan_pairs.{part}.tsv").write_text("\n".join(lines) + "\n")
    message = r"train\.tsv, line 3: the pair P1, P2 stands in line 1 already, and there are 3 lines, not 147086"
    with pytest.raises(DataError, match=message):
        load("retrieval", tmp_path)


def test_without_the_release_the_stand_in_is_named(tmp_path: Path):
    with pytest.raises(DataError, match="use retrieval-peerread, a stand-in"):
        load("retrieval", tmp_path)
