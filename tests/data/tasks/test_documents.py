"""Pairs of documents: the published tables of AAN, and the stand-in."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from wellposed.data import PairBatch, PeerRead, SequenceDataset, load
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


def test_without_the_release_the_stand_in_is_named(tmp_path: Path):
    with pytest.raises(DataError, match="use retrieval-peerread, a stand-in"):
        load("retrieval", tmp_path)


def write_papers(root: Path, papers: list[dict]) -> None:
    (root / "peerread").mkdir()
    (root / "peerread" / "papers.jsonl").write_text("".join(json.dumps(paper) + "\n" for paper in papers))


@pytest.fixture
def papers(tmp_path: Path) -> tuple[Path, set[tuple[int, int]]]:
    rng = np.random.default_rng(0)
    edges = {(int(i), int(j)) for i, j in rng.integers(60, size=(200, 2)) if i != j}
    papers = [{"i": i, "text": f"paper {i}!", "cites": [j for k, j in edges if k == i]} for i in range(60)]
    write_papers(tmp_path, papers)
    return tmp_path, edges


def pairs(root: Path, seed: int = 0) -> list[tuple[int, int, int]]:
    found = []
    for split in ("train", "val", "test"):
        part = load(PeerRead(min_count=1, seed=seed), root, split)
        for i in range(len(part)):
            a, b = (int(text[6:-1]) for text in texts(part, i))
            found.append((a, b, int(part.y[i])))
    return found


def test_every_citation_and_as_many_pairs_without_one(papers: tuple[Path, set[tuple[int, int]]]):
    root, edges = papers
    found = pairs(root)
    assert {(a, b) for a, b, label in found if label} == edges
    others = [(a, b) for a, b, label in found if not label]
    assert len(others) == len(set(others)) == len(edges)
    assert not any(a == b or (a, b) in edges or (b, a) in edges for a, b in others)
    for side in (0, 1):
        assert Counter(pair[side] for pair in others) == Counter(pair[side] for pair in edges), "no paper gives it away"


def test_the_seed_chooses_the_pairs_without_a_citation(papers: tuple[Path, set[tuple[int, int]]]):
    assert pairs(papers[0], 1) != pairs(papers[0], 2)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([{"i": 0, "text": "a"}], "line 1: KeyError"),
        ([{"i": 0, "text": "a", "cites": []}, {"i": 2, "text": "b", "cites": []}], "must be 0 to 1, each once"),
        ([{"i": 0, "text": "a", "cites": [5]}], "paper 0 cites 5, which is not there"),
        ([{"i": 0, "text": "a", "cites": []}] * 2, "line 2: ValueError.*number 0 again"),
        ([{"i": 0, "text": "a", "cites": [1]}, {"i": 1, "text": "b", "cites": [0]}], "too many papers cite each other"),
    ],
)
def test_papers_that_will_not_do(tmp_path: Path, content: list[dict], message: str):
    write_papers(tmp_path, content)
    with pytest.raises(DataError, match=message):
        load("retrieval-peerread", tmp_path)
