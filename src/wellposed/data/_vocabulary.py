"""Tokens and their numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

import numpy as np
from jaxtyping import Int, Integer

from wellposed.errors import ArgumentError

PAD, UNKNOWN, END = 0, 1, 2
SPECIAL = ("<pad>", "<unk>", "<eos>")
_CODES = 0x110000  # as many code points as Unicode has


@dataclass(frozen=True)
class Vocabulary:
    """The tokens of a task in the order of their numbers: padding, unknown, end, then its own.

    >>> letters = Vocabulary.of_characters(["abba", "cab"], min_count=2)
    >>> letters.tokens
    ('<pad>', '<unk>', '<eos>', 'a', 'b')
    >>> letters.encode("abc").tolist()
    [3, 4, 1, 2]
    >>> letters.decode([3, 4, 1, 2])
    'ab\ufffd'
    """

    tokens: tuple[str, ...]
    separator: str = ""
    """Between the tokens of a text: a space for words, nothing for characters."""

    def __post_init__(self) -> None:
        if self.tokens[: len(SPECIAL)] != SPECIAL or len(set(self.tokens)) != len(self.tokens):
            raise ArgumentError(f"a vocabulary starts with {', '.join(SPECIAL)} and names no token twice")
        if not self.separator and any(len(token) != 1 for token in self.tokens[len(SPECIAL) :]):
            raise ArgumentError("tokens longer than a character need a separator, such as a space")

    @classmethod
    def of_characters(cls, texts: Iterable[str], *, min_count: int = 1) -> Vocabulary:
        """Characters seen at least ``min_count`` times, most frequent first, equals in the order of Unicode."""
        counts, rest = np.zeros(_CODES, dtype=np.int64), iter(texts)
        while chunk := list(islice(rest, 4096)):  # not all at once: a code point takes four bytes
            counts += np.bincount(_code_points("".join(chunk)), minlength=_CODES)
        kept = np.flatnonzero(counts >= max(min_count, 1))
        kept = kept[np.argsort(-counts[kept], kind="stable")]
        return cls(SPECIAL + tuple(map(chr, kept.tolist())))

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def dtype(self) -> np.dtype:
        """The smallest one that holds every token; unsigned ones of two bytes a GPU cannot index."""
        return np.dtype(next(kind for kind in (np.uint8, np.int16, np.int32) if len(self) - 1 <= np.iinfo(kind).max))

    def encode(self, text: str, *, cut: int | None = None, end: bool = True) -> Integer[np.ndarray, " length"]:
        """Numbers of the first ``cut`` tokens, and the end; what the vocabulary lacks is unknown."""
        if self.separator:
            words = [word for word in text.split(self.separator) if word][:cut]
            numbers = np.array([self._number.get(word, UNKNOWN) for word in words], dtype=self.dtype)
        else:
            numbers = self._of_code[_code_points(text[:cut])]
        return np.append(numbers, self.dtype.type(END)) if end else numbers

    def decode(self, numbers: Sequence[int] | Int[np.ndarray, " length"]) -> str:
        """The text again, without padding and end; unknown characters show as U+FFFD."""
        words = [self.tokens[int(number)] for number in numbers if number not in (PAD, END)]
        return self.separator.join("\ufffd" if word == SPECIAL[UNKNOWN] else word for word in words)

    @cached_property
    def _number(self) -> dict[str, int]:
        return {token: number for number, token in enumerate(self.tokens)}

    @cached_property
    def _of_code(self) -> Integer[np.ndarray, " code"]:
        table = np.full(_CODES, UNKNOWN, dtype=self.dtype)
        for number, token in enumerate(self.tokens[len(SPECIAL) :], len(SPECIAL)):
            table[ord(token)] = number
        return table


def _code_points(text: str) -> Integer[np.ndarray, " length"]:
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4")
