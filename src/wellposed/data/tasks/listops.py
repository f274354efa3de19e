"""ListOps: nested lists of operations on digits, and the digit they come to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
from jaxtyping import UInt8

from wellposed._checks import positive_int
from wellposed.data._dataset import Info, Source
from wellposed.data._vocabulary import END, SPECIAL, Vocabulary
from wellposed.data.store import Builder, Part, make_parts
from wellposed.data.tasks._release import Released, compare_count
from wellposed.errors import ArgumentError, DataError

_SIZES = {"train": 96_000, "val": 2_000, "test": 2_000}
_WORDS = Vocabulary((*SPECIAL, *"0123456789", "[MIN", "[MAX", "[MED", "[SM", "]"), separator=" ")
_DIGITS = tuple("0123456789")
_PART = 1000


@dataclass(frozen=True)
class ListOps(Released):
    """The Long Range Arena's ListOps: 500 to 2000 tokens, ten classes.

    Read from the published tables where they are found, every label compared with the value of its expression, else
    generated from the same distribution. Parentheses, which only repeat what the brackets say, are dropped.
    """

    name: ClassVar[str] = "listops"
    title: ClassVar[str] = "nested lists of operations, up to 2048 tokens"
    licence: ClassVar[str] = "generated; the published ones state none"

    generator: ClassVar[tuple[str, ...]] = ("seed", "train", "val", "test")

    seed: int = 0
    """Of the generator."""
    train: int = 96_000
    val: int = 2_000
    test: int = 2_000
    length: int = 2048
    """Tokens at most, the end token included."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("train", "val", "test"):
            positive_int(getattr(self, name), name)
        if self.length < 2:
            raise ArgumentError(f"need length >= 2, for a token and the end, got {self.length}")

    @property
    def published_paths(self) -> list[str]:
        """The three tables."""
        return [f"listops-1000/basic_{split}.tsv" for split in _SIZES]

    def build(self, out: Builder) -> Info:
        """Splits train, val and test."""
        if self.source == "generated":
            self._generate(out)
        else:
            for (split, size), path in zip(_SIZES.items(), self.sources(out.root), strict=True):
                rows = list(_read(path))
                compare_count(path, len(rows), size)
                out.write(split, [_WORDS.encode(text, cut=self.length - 1) for text, _ in rows], [y for _, y in rows])
        source: Source = "generated" if self.source == "generated" else "published"
        return Info("listops", source, self.length, vocabulary=_WORDS, classes=_DIGITS)

    def _generate(self, out: Builder) -> None:
        from wellposed.data.tasks._listops_trees import trees

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
    """Expressions without parentheses, and their values; a table has no expression twice."""
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} cannot be read ({error}): unpack the release again") from None
    if not lines or lines[0].split("\t") != ["Source", "Target"]:
        raise DataError(f"{path} starts with {lines[:1]}, not with Source and Target: is it a table of ListOps?")
    first_line: dict[str, int] = {}
    for number, line in enumerate(lines[1:], 2):
        if not line:
            continue
        text, tab, label = line.partition("\t")
        if not tab or label not in _DIGITS:
            raise DataError(f"{path}, line {number}: a row is an expression, a tab and a digit")
        words = [word for word in text.split() if word not in ("(", ")")]
        try:
            comes_to = value(words)
        except ValueError as error:
            raise DataError(f"{path}, line {number}: {error}") from None
        if comes_to != int(label):
            raise DataError(f"{path}, line {number}: the expression comes to {comes_to}, the table says {label}")
        text = " ".join(words)
        if (earlier := first_line.setdefault(text, number)) != number:
            raise DataError(
                f"{path}, line {number}: {text[:40]!r} ... stands in line {earlier} already: unpack the release again"
            )
        yield text, comes_to


def value(words: list[str]) -> int:
    """What an expression comes to.

    >>> value("[MAX 2 [MED 1 4 ] [SM 7 8 ] ]".split())
    5
    """
    open_: list[tuple[str, list[int]]] = [("", [])]
    for word in words:
        if word in _OPERATORS:
            open_.append((word, []))
        elif word in _DIGITS:
            open_[-1][1].append(int(word))
        elif word != "]":
            raise ValueError(f"{word!r} is not a token of ListOps")
        elif len(open_) == 1 or not open_[-1][1]:
            raise ValueError("a bracket closes nothing")
        else:
            operator, arguments = open_.pop()
            open_[-1][1].append(_OPERATORS[operator](arguments))
    if len(open_) != 1 or len(open_[0][1]) != 1:
        raise ValueError("the brackets do not make one expression")
    return open_[0][1][0]


def _median(digits: list[int]) -> int:
    """Of an even number of them, the mean of the two in the middle, rounded down."""
    digits = sorted(digits)
    return (digits[(len(digits) - 1) // 2] + digits[len(digits) // 2]) // 2


_OPERATORS: dict[str, Callable[[list[int]], int]] = {
    "[MIN": min,
    "[MAX": max,
    "[MED": _median,
    "[SM": lambda digits: sum(digits) % 10,
}
