"""The stand-in for AAN: the pairs it makes, and that no rule which never compares two papers tells them apart."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from wellposed.data import PeerRead, load
from wellposed.errors import DataError

SPLITS = ("train", "val", "test")


class Pairs(NamedTuple):
    """Papers by a number of the test's own, the same in every split."""

    papers: np.ndarray
    labels: np.ndarray


def write_papers(root: Path, papers: list[dict]) -> None:
    (root / "peerread").mkdir()
    (root / "peerread" / "papers.jsonl").write_text("".join(json.dumps(paper) + "\n" for paper in papers))


def corpus(root: Path, count: int, most: int, seed: int = 0) -> set[tuple[int, int]]:
    """Papers that mostly cite those cited already, as people do, some of them each other."""
    rng = np.random.default_rng(seed)
    popularity = (1 + rng.permutation(count)) ** -0.5
    edges = {
        (i, int(j))
        for i in range(count)
        for j in rng.choice(count, size=rng.integers(1, most), replace=False, p=popularity / popularity.sum())
        if i != j
    }
    edges |= {(j, i) for i, j in sorted(edges)[::50]}
    cites: dict[int, list[int]] = {i: [] for i in range(count)}
    for i, j in sorted(edges):
        cites[i].append(j)
    write_papers(root, [{"i": i, "text": f"paper {i}!", "cites": cites[i]} for i in range(count)])
    return edges


def read(root: Path, **options: int) -> dict[str, Pairs]:
    numbers: dict[bytes, int] = {}
    found = {}
    for split in SPLITS:
        part = load(PeerRead(**options), root, split)
        assert part.pairs is not None
        own = [numbers.setdefault(part.rows[k].numpy().tobytes(), len(numbers)) for k in range(len(part.rows))]
        found[split] = Pairs(np.array(own)[part.pairs.numpy()], part.y.numpy())
    return found


@pytest.fixture(params=["synthetic", "official"], scope="module")
def pairs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Pairs]:
    root = tmp_path_factory.mktemp("peerread")
    if request.param == "official":
        official: Path = request.getfixturevalue("official")
        (root / "peerread").symlink_to(official / "peerread")
        return read(root)
    corpus(root, 1500, 16)
    return read(root, min_count=1)


def learned(train: Pairs, count: int) -> dict[str, list[np.ndarray]]:
    """For each role of a paper, how many more citations than other pairs it was seen in; then in either role."""
    sign = 2 * train.labels - 1
    citing, cited = (np.bincount(train.papers[:, side], sign, count) for side in (0, 1))
    nothing = np.zeros(count)
    return {
        "citing side": [citing, nothing],
        "cited side": [nothing, cited],
        "sum of both": [citing, cited],
        "whichever side": [citing + cited, citing + cited],
    }


def accuracy(rule: list[np.ndarray], pairs: Pairs) -> float:
    """Of saying "citation" where the papers have been seen with more of them; where there is a tie, of a coin."""
    score = rule[0][pairs.papers[:, 0]] + rule[1][pairs.papers[:, 1]]
    return float(np.where(score == 0, 0.5, (score > 0) == pairs.labels).mean())


def test_what_was_learned_about_a_paper_alone_is_worth_nothing(pairs: dict[str, Pairs]):
    """Majority labels by role: within three standard errors of a coin, and so is the inverse of each rule."""
    train, rng = pairs["train"], np.random.default_rng(0)
    count = 1 + max(int(part.papers.max()) for part in pairs.values())
    half = rng.permutation(len(train.labels))[: len(train.labels) // 2]
    for seen in (train, Pairs(train.papers[half], train.labels[half])):
        for name, rule in learned(seen, count).items():
            for split in ("val", "test"):
                error = 0.5 / np.sqrt(len(pairs[split].labels))
                assert abs(accuracy(rule, pairs[split]) - 0.5) < 3 * error, (name, split)


def test_how_often_two_papers_occur_is_worth_nothing(pairs: dict[str, Pairs]):
    """A table over how often the two were seen, each on its side, with the more frequent label of training pairs."""
    train = pairs["train"]
    count = 1 + max(int(part.papers.max()) for part in pairs.values())
    often = [np.log2(1 + np.bincount(train.papers[:, side], minlength=count)).astype(int) for side in (0, 1)]
    table = np.zeros((20, 20))
    np.add.at(table, (often[0][train.papers[:, 0]], often[1][train.papers[:, 1]]), 2 * train.labels - 1)
    for split in ("val", "test"):
        papers, labels = pairs[split]
        score = table[often[0][papers[:, 0]], often[1][papers[:, 1]]]
        right = np.where(score == 0, 0.5, (score > 0) == labels).mean()
        assert abs(right - 0.5) < 3 * 0.5 / np.sqrt(len(labels)), split


def test_every_split_is_balanced_paper_by_paper_and_side_by_side(pairs: dict[str, Pairs]):
    for papers, labels in pairs.values():
        for side in (0, 1):
            with_citation, without = (Counter(papers[labels == label, side].tolist()) for label in (1, 0))
            assert with_citation == without


def test_no_two_papers_meet_twice_in_whichever_order(pairs: dict[str, Pairs]):
    met = Counter(frozenset(pair) for part in pairs.values() for pair in part.papers.tolist())
    assert set(met.values()) == {1}
    assert {len(pair) for pair in met} == {2}


def test_a_paper_cites_in_one_split_only(pairs: dict[str, Pairs]):
    citing = [set(part.papers[:, 0].tolist()) for part in pairs.values()]
    assert len(set.union(*citing)) == sum(map(len, citing))


def numbered(root: Path, seed: int = 0) -> list[tuple[int, int, int]]:
    """Pairs and labels, the papers by their own numbers."""
    found = []
    for split in SPLITS:
        part = load(PeerRead(min_count=1, seed=seed), root, split)
        assert part.vocabulary is not None
        for i in range(len(part)):
            a, b, label = part[i]
            i, j = (int(part.vocabulary.decode(text.tolist())[6:-1]) for text in (a, b))
            found.append((i, j, int(label)))
    return found


def test_every_citation_and_as_many_pairs_without_one(tmp_path: Path):
    edges = corpus(tmp_path, 150, 6)
    found = numbered(tmp_path)
    cited = {(i, j) for i, j, label in found if label}
    assert cited <= edges
    assert {frozenset(pair) for pair in cited} == {frozenset(pair) for pair in edges}, "of mutual ones, one"
    others = [(i, j) for i, j, label in found if not label]
    assert len(others) == len(set(others)) == len(cited)
    assert not any(i == j or (i, j) in edges or (j, i) in edges for i, j in others)
    assert numbered(tmp_path, 1) != numbered(tmp_path, 2), "the seed chooses the others"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([{"i": 0, "text": "a"}], "line 1: KeyError"),
        ([{"i": 0, "text": "a", "cites": []}, {"i": 2, "text": "b", "cites": []}], "must be 0 to 1, each once"),
        ([{"i": 0, "text": "a", "cites": [5]}], "paper 0 cites 5, which is not there"),
        ([{"i": 0, "text": "a", "cites": []}] * 2, "line 2: ValueError.*number 0 again"),
        ([{"i": 0, "text": "a", "cites": [1]}, {"i": 1, "text": "b", "cites": [0]}], "1 papers cite others: .* ten"),
        (
            [{"i": i, "text": "a", "cites": [j for j in range(30) if j != i]} for i in range(30)],
            "pairs without a citation for split train: .* too many of them cite each other",
        ),
    ],
)
def test_papers_that_will_not_do(tmp_path: Path, content: list[dict], message: str):
    write_papers(tmp_path, content)
    with pytest.raises(DataError, match=message):
        load("retrieval-peerread", tmp_path)
