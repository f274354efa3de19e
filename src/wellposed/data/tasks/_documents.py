"""Pairs of documents, each document kept once."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from jaxtyping import Int

from wellposed.data._vocabulary import Vocabulary
from wellposed.data.store import Builder


class Documents:
    """The different texts among many, numbered as they come."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._place: dict[str, int] = {}

    def add(self, text: str) -> int:
        """Its number."""
        place = self._place.setdefault(text, len(self.texts))
        if place == len(self.texts):
            self.texts.append(text)
        return place


def write_pairs(
    out: Builder,
    split: str,
    texts: list[str],
    pairs: Int[np.ndarray, "item 2"],
    labels: Iterable[int],
    words: Vocabulary,
) -> None:
    """The pairs of a split, with those of the documents that occur in it."""
    used, places = np.unique(pairs, return_inverse=True)
    encoded = [words.encode(texts[i]) for i in used.tolist()]
    out.write(split, encoded, list(labels), pairs=places.reshape(pairs.shape))
