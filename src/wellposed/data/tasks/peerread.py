"""A stand-in for Retrieval: papers of PeerRead and the citations among them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Int

from wellposed.data._dataset import Info
from wellposed.data._vocabulary import Vocabulary
from wellposed.data.store import Builder
from wellposed.data.tasks._documents import write_pairs
from wellposed.data.tasks._task import Task, held_out
from wellposed.errors import ArgumentError, DataError

_FILE = "peerread/papers.jsonl"
"""One line of JSON a paper: its number i, its text, and the numbers of the papers it cites."""


@dataclass(frozen=True)
class PeerRead(Task):
    """A stand-in for AAN, not AAN: the same question about other papers, to develop against.

    Every citation is a pair; for each, a pair without one joins the same citing paper to a paper cited by another,
    so that neither paper alone gives the answer away.
    """

    name: ClassVar[str] = "retrieval-peerread"
    title: ClassVar[str] = "stand-in for AAN: PeerRead citation pairs by character"
    licence: ClassVar[str] = "of the papers; the collection is for research (Kang et al., NAACL 2018)"
    published: ClassVar[Mapping[str, str | None]] = {_FILE: None}

    length: int = 4000
    """Tokens of a document at most, the end token included."""
    min_count: int = 15
    """Characters seen less often become the unknown token."""
    seed: int = 0
    """Of the pairs without a citation."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.length < 2 or self.min_count < 1 or self.seed < 0:
            raise ArgumentError(
                f"need length >= 2, min_count >= 1 and seed >= 0, got {self.length}, {self.min_count} and {self.seed}"
            )

    def build(self, out: Builder) -> Info:
        """Splits train, val and test, 80, 10 and 10 per cent of the pairs."""
        texts, cited = _read(out.root / _FILE)
        texts = [text[: self.length - 1] for text in texts]
        uncited = _strangers(cited, self.seed)
        pairs = np.concatenate([cited, uncited])
        labels = np.repeat([1, 0], [len(cited), len(uncited)])
        vocabulary = Vocabulary.of_characters(texts, min_count=self.min_count)
        for split, rows in zip(("train", "val", "test"), held_out(len(pairs), 0.1, 0.1), strict=True):
            write_pairs(out, split, texts, pairs[rows], labels[rows].tolist(), vocabulary)
        classes = ("no citation", "citation")
        return Info(self.name, "stand-in", self.length, vocabulary=vocabulary, classes=classes, pairs=True)


def _read(path: Path) -> tuple[list[str], Int[np.ndarray, "citation 2"]]:
    """Texts in the order of their numbers, and every citation as (citing, cited)."""
    papers: dict[int, dict[str, Any]] = {}
    with path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            try:
                paper = json.loads(line)
                if paper["i"] in papers:
                    raise ValueError(f"number {paper['i']} again")
                papers[paper["i"]] = {"text": str(paper["text"]), "cites": [int(i) for i in paper["cites"]]}
            except (ValueError, KeyError, TypeError) as error:
                raise DataError(f"{path}, line {number}: {error!r}; a line is JSON with i, text and cites") from None
    if sorted(papers) != list(range(len(papers))):
        raise DataError(f"{path}: the numbers i must be 0 to {len(papers) - 1}, each once")
    edges = {(i, j) for i, paper in papers.items() for j in paper["cites"] if i != j}
    if wrong := [edge for edge in edges if edge[1] not in papers]:
        raise DataError(f"{path}: paper {wrong[0][0]} cites {wrong[0][1]}, which is not there")
    return [papers[i]["text"] for i in range(len(papers))], np.array(sorted(edges)).reshape(-1, 2)


def _strangers(cited: Int[np.ndarray, "citation 2"], seed: int) -> Int[np.ndarray, "pair 2"]:
    """As many pairs without a citation either way, every paper in them as often on either side as in ``cited``."""
    known = {*map(tuple, cited.tolist()), *map(tuple, cited[:, ::-1].tolist())}
    bits = np.random.PCG64(np.random.SeedSequence(seed))
    citing, other = cited[:, 0], cited[:, 1].copy()
    for _ in range(100):
        pairs = np.stack([citing, other], axis=1)
        wrong = _wrong(pairs, known)
        if not wrong:
            return pairs
        # Swap each wrong partner with that of a pair drawn at random.
        for k, l in zip(wrong, (bits.random_raw(len(wrong)) % len(other)).tolist(), strict=True):
            other[k], other[l] = other[l], other[k]
    raise DataError(f"cannot find {len(cited)} pairs without a citation: too many papers cite each other")


def _wrong(pairs: Int[np.ndarray, "pair 2"], known: set[tuple[int, int]]) -> list[int]:
    """Places of pairs that are linked, of a paper with itself, or there already."""
    seen, wrong = set(known), []
    for place, (i, j) in enumerate(map(tuple, pairs.tolist())):
        if i == j or (i, j) in seen:
            wrong.append(place)
        seen.add((i, j))
    return wrong
