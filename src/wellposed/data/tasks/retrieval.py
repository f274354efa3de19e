"""Retrieval: does one paper of the ACL Anthology Network cite the other? Both character by character."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from wellposed.data._dataset import Info
from wellposed.data._vocabulary import Vocabulary
from wellposed.data.download import LONG_RANGE_ARENA, Download
from wellposed.data.readers import read_pairs
from wellposed.data.store import Builder
from wellposed.data.tasks._documents import Documents, write_pairs
from wellposed.data.tasks._release import compare_count, released
from wellposed.data.tasks._task import Task
from wellposed.errors import ArgumentError, DataError

_SPLITS = {"train": "train", "val": "eval", "test": "test"}
_SIZES = {"train": 147_086, "val": 18_090, "test": 17_437}


@dataclass(frozen=True)
class Retrieval(Task):
    """The Long Range Arena's retrieval task, from its published tables: pairs of up to 3999 characters each."""

    name: ClassVar[str] = "retrieval"
    title: ClassVar[str] = "AAN citation pairs by character, 2 x 4000 tokens"
    licence: ClassVar[str] = "of the ACL Anthology: CC BY-NC-SA 3.0 for papers before 2016, CC BY 4.0 since"
    downloads: ClassVar[tuple[Download, ...]] = (LONG_RANGE_ARENA,)

    length: int = 4000
    """Tokens of a document at most, the end token included."""
    min_count: int = 1
    """Characters seen less often in the training documents become the unknown token."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.length < 2 or self.min_count < 1:
            raise ArgumentError(f"need length >= 2 and min_count >= 1, got {self.length} and {self.min_count}")

    def sources(self, root: Path) -> list[Path]:
        """The three tables of pairs."""
        names = [f"new_aan_pairs.{part}.tsv" for part in _SPLITS.values()]
        found = [released(root, f"tsv_data/{name}") or released(root, name) for name in names]
        for name, path in zip(names, found, strict=True):
            if path is None:
                raise DataError(
                    f"there is no {root / 'tsv_data' / name}: unpack the release of the Long Range Arena there, or use "
                    "retrieval-peerread, a stand-in made from other papers"
                )
        return [path for path in found if path is not None]

    def build(self, out: Builder) -> Info:
        """Splits train, val (called eval there) and test."""
        vocabulary = None
        for split, path in zip(_SPLITS, self.sources(out.root), strict=True):
            documents, pairs, labels = Documents(), [], []
            first_line: dict[tuple[int | str, ...], int] = {}
            repeated = None
            for line, (label, id1, id2, first, second) in enumerate(read_pairs(path), 1):
                pairs.append([documents.add(text[: self.length - 1]) for text in (first, second)])
                labels.append(label)
                if (earlier := first_line.setdefault((label, id1, id2, *pairs[-1]), line)) != line and not repeated:
                    repeated = f"{path}, line {line}: the pair {id1}, {id2} stands in line {earlier} already"
            # Whether the published tables have a pair twice is not known; in one of another size it is damage.
            if repeated and len(labels) != _SIZES[split]:
                raise DataError(f"{repeated}, and there are {len(labels)} lines, not {_SIZES[split]}: unpack it again")
            compare_count(path, len(labels), _SIZES[split])
            if vocabulary is None:
                vocabulary = Vocabulary.of_characters(documents.texts, min_count=self.min_count)
            write_pairs(out, split, documents.texts, np.array(pairs).reshape(-1, 2), labels, vocabulary)
        classes = ("no citation", "citation")
        return Info("retrieval", "published", self.length, vocabulary=vocabulary, classes=classes, pairs=True)
