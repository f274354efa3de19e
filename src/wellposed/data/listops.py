"""ListOps: nested lists of operations on digits, and the digit they come to."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
from jaxtyping import UInt8

from wellposed._checks import positive_int
from wellposed.data._builder import Builder
from wellposed.data._dataset import Info, Source
from wellposed.data._release import released
from wellposed.data._shards import Part, make_parts
from wellposed.data._task import Task
from wellposed.data._vocabulary import END, SPECIAL, Vocabulary
from wellposed.errors import ArgumentError, DataError, UnknownNameError

_FILES = {split: f"listops-1000/basic_{split}.tsv" for split in ("train", "val", "test")}
_WORDS = Vocabulary((*SPECIAL, *"0123456789", "[MIN", "[MAX", "[MED", "[SM", "]"), separator=" ")
_DIGITS = tuple("0123456789")
_PART = 1000


@dataclass(frozen=True)
class ListOps(Task):
    """The Long Range Arena's ListOps: 500 to 2000 tokens, ten classes.

    Read from the published tables where they are found, else generated from the same distribution. Parentheses,
    which only repeat what the brackets say, are dropped.
    """

    name: ClassVar[str] = "listops"
    title: ClassVar[str] = "nested lists of operations, up to 2048 tokens"
    licence: ClassVar[str] = "generated; the published ones state none"

    source: Literal["auto", "published", "generated"] = "auto"
    """``"auto"`` takes the published tables if they are there."""
    seed: int = 0
    """Of the generator."""
    train: int = 96_000
    val: int = 2_000
    test: int = 2_000
    length: int = 2048
    """Tokens at most, the end token included."""

    def __post_init__(self) -> None:
        if self.source not in ("auto", "published", "generated"):
            raise UnknownNameError("source", self.source, ("auto", "published", "generated"))
        for name in ("train", "val", "test"):
            positive_int(getattr(self, name), name)
        if self.seed < 0 or self.length < 2:
            raise ArgumentError(f"need seed >= 0 and length >= 2, got {self.seed} and {self.length}")

    def resolved(self, root: Path) -> ListOps:
        """With the choice made between published and generated."""
        if self.source != "auto":
            return self
        there = all(released(root, name) for name in _FILES.values())
        return replace(self, source="published" if there else "generated")

    def sources(self, root: Path) -> list[Path]:
        """The three tables, if they are read."""
        if self.source == "generated":
            return []
        found = [released(root, name) for name in _FILES.values()]
        if None in found:
            missing = root / list(_FILES.values())[found.index(None)]
            raise DataError(f"there is no {missing}: unpack the release there, or use source='generated'")
        return [path for path in found if path is not None]

    def build(self, out: Builder) -> Info:
        """Splits train, val and test."""
        if self.source == "generated":
            self._generate(out)
        else:
            for split, path in zip(_FILES, self.sources(out.root), strict=True):
                rows = list(_read(path))
                out.write(split, [_WORDS.encode(text, cut=self.length - 1) for text, _ in rows], [y for _, y in rows])
        source: Source = "generated" if self.source == "generated" else "published"
        return Info("listops", source, self.length, vocabulary=_WORDS, classes=_DIGITS)

    def _generate(self, out: Builder) -> None:
        from wellposed.data._listops_trees import trees

        def make(part: int) -> Part:
            tokens, lengths, values = trees(_PART, np.random.SeedSequence(self.seed, spawn_key=(part,)))
            return {"tokens": tokens, "lengths": lengths, "values": values}

        x, y = self._distinct(out, make)
        first = 0
        for split, size in (("train", self.train), ("val", self.val), ("test", self.test)):
            out.write(split, x[first : first + size], y[first : first + size])
            first += size

    def _distinct(self, out: Builder, make: Callable[[int], Part]) -> tuple[list[np.ndarray], list[int]]:
        """As many different expressions as the splits take, in the order they are drawn, with their values."""
        total = self.train + self.val + self.test
        parts = -(-total // _PART)
        while True:
            found: dict[bytes, int] = {}
            for part in make_parts(out, "expressions", parts, make):
                found |= _expressions(part())
            if len(found) >= total:
                x = [np.frombuffer(tokens, dtype=np.uint8) for tokens in found]
                return [self._numbered(tokens) for tokens in x[:total]], list(found.values())[:total]
            parts += 1

    def _numbered(self, tokens: UInt8[np.ndarray, " length"]) -> UInt8[np.ndarray, " cut"]:
        """The generator counts from the digit 0, the vocabulary from its special tokens."""
        return np.append(tokens[: self.length - 1] + np.uint8(len(SPECIAL)), np.uint8(END))


def _expressions(part: Part) -> dict[bytes, int]:
    """Tokens to value, in order; the same expression comes but once."""
    ends = np.cumsum(part["lengths"])
    pieces = (piece.tobytes() for piece in np.split(part["tokens"], ends[:-1]))
    return dict(zip(pieces, part["values"].tolist(), strict=True))


def _read(path: Path) -> Iterator[tuple[str, int]]:
    """Expressions without parentheses, and their values."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = csv.reader(file, delimiter="\t")
        if (header := next(rows, None)) != ["Source", "Target"]:
            raise DataError(f"{path} starts with {header}, not with Source and Target: is it a table of ListOps?")
        for number, row in enumerate(rows, 2):
            if len(row) != 2 or row[1] not in _DIGITS:
                raise DataError(f"{path}, line {number}: a row is an expression, a tab and a digit")
            words = [word for word in row[0].split() if word not in ("(", ")")]
            if unknown := set(words) - set(_WORDS.tokens):
                raise DataError(f"{path}, line {number}: {min(unknown)!r} is not a token of ListOps")
            yield " ".join(words), int(row[1])
