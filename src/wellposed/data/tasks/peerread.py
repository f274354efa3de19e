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
_ROUNDS = 200  # of exchanging partners; the official papers take fewer than 10 in each split


@dataclass(frozen=True)
class PeerRead(Task):
    """A stand-in for AAN, not AAN: the same question about other papers, to develop against.

    Every citation is a pair; for each, a pair without one joins the same citing paper to a paper cited by another of
    the same split. In each split every paper is as often citing, and as often cited, with a citation as without, so
    that nothing that is learned about one paper alone, in this split or in another, gives an answer away.
    """

    name: ClassVar[str] = "retrieval-peerread"
    title: ClassVar[str] = "stand-in for AAN: PeerRead citation pairs by character"
    version: ClassVar[int] = 2  # 1 balanced papers over all splits together: what train had too often, test had not
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
        if self.length < 2 or self.min_count < 1:
            raise ArgumentError(f"need length >= 2 and min_count >= 1, got {self.length} and {self.min_count}")

    def build(self, out: Builder) -> Info:
        """Splits train, val and test: the pairs of 80, 10 and 10 per cent of the citing papers."""
        texts, citations = _read(out.root / _FILE)
        texts = [text[: self.length - 1] for text in texts]
        vocabulary = Vocabulary.of_characters(texts, min_count=self.min_count)
        taken = set(map(frozenset, citations.tolist()))
        bits = np.random.PCG64(np.random.SeedSequence(self.seed))
        for split, cited in zip(("train", "val", "test"), _by_citing_paper(citations), strict=True):
            uncited = _uncited(split, cited, taken, bits)
            labels = [1] * len(cited) + [0] * len(uncited)
            write_pairs(out, split, texts, np.concatenate([cited, uncited]), labels, vocabulary)
        classes = ("no citation", "citation")
        return Info(self.name, "stand-in", self.length, vocabulary=vocabulary, classes=classes, pairs=True)


def _read(path: Path) -> tuple[list[str], Int[np.ndarray, "citation 2"]]:
    """Texts in the order of their numbers, and every citation as (citing, cited), one of two that cite each other."""
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
    # (i, j) in train would tell (j, i) in test: of two papers that cite each other, the one of the lower number does.
    citations = sorted((i, j) for i, j in edges if i < j or (j, i) not in edges)
    return [papers[i]["text"] for i in range(len(papers))], np.array(citations).reshape(-1, 2)


def _by_citing_paper(citations: Int[np.ndarray, "citation 2"]) -> list[Int[np.ndarray, "part 2"]]:
    """The citations of 80, 10 and 10 per cent of the citing papers.

    Were those of one paper in several splits, a list of references known in part would tell the rest of it: papers are
    cited together.
    """
    citing = np.unique(citations[:, 0])
    if len(citing) < 10:
        raise DataError(f"{len(citing)} papers cite others: three splits take ten at least")
    return [citations[np.isin(citations[:, 0], citing[part])] for part in held_out(len(citing), 0.1, 0.1)]


def _uncited(
    split: str, cited: Int[np.ndarray, "citation 2"], taken: set[frozenset[int]], bits: np.random.PCG64
) -> Int[np.ndarray, "citation 2"]:
    """As many pairs without a citation, every paper in them as often on either side as in ``cited``.

    None of them is ``taken``, in whichever order; they are when this returns, so that no other split has them too.
    """
    citing, other = cited[:, 0], cited[:, 1].copy()
    for _ in range(_ROUNDS):
        pairs = np.stack([citing, other], axis=1)
        rejected = _rejected(pairs, taken)
        if not rejected:
            taken |= set(map(frozenset, pairs.tolist()))
            return pairs
        # Exchanging partners keeps how often each paper occurs on its side.
        for k, l in zip(rejected, (bits.random_raw(len(rejected)) % len(other)).tolist(), strict=True):
            other[k], other[l] = other[l], other[k]
    raise DataError(
        f"cannot find {len(cited)} pairs without a citation for split {split}: there are too few papers, or too many "
        "of them cite each other; give more papers, or another seed"
    )


def _rejected(pairs: Int[np.ndarray, "pair 2"], taken: set[frozenset[int]]) -> list[int]:
    """Places of pairs that are taken, of a paper with itself, or there already."""
    seen, rejected = set(taken), []
    for place, pair in enumerate(map(frozenset, pairs.tolist())):
        if len(pair) == 1 or pair in seen:
            rejected.append(place)
        seen.add(pair)
    return rejected
