"""Text: film reviews of IMDB, character by character."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from wellposed.data._dataset import Info
from wellposed.data._vocabulary import Vocabulary
from wellposed.data.download import IMDB, Download
from wellposed.data.readers import digest_of_reviews, read_reviews
from wellposed.data.store import Builder
from wellposed.data.tasks._task import Task, held_out
from wellposed.errors import ArgumentError, DataError

FOLDERS = tuple(f"aclImdb/{split}/{side}" for split in ("train", "test") for side in ("neg", "pos"))


@dataclass(frozen=True)
class Text(Task):
    """The Long Range Arena's text task: is a review good or bad? Up to 4095 characters and an end token.

    Others report the best epoch on the test set; here a tenth of the training reviews is held out to choose by.
    """

    name: ClassVar[str] = "text"
    title: ClassVar[str] = "IMDB reviews by character, up to 4096 tokens"
    licence: ClassVar[str] = "none stated; the authors ask to cite Maas et al., ACL 2011"
    published: ClassVar[Mapping[str, str | None]] = dict.fromkeys(FOLDERS)
    downloads: ClassVar[tuple[Download, ...]] = (IMDB,)

    reviews_per_folder: ClassVar[int] = 12_500
    # The authors publish a checksum of the archive only. This one was taken from the 50,000 files that it unpacks to,
    # with digest_of_reviews and, the same, with the shell command in its docstring.
    digest: ClassVar[str] = "sha256:53401f63790d00988eaba68794083e8b1e613bdeb1396a7f8af4b16627000f69"
    """Of the names and contents of all reviews."""

    length: int = 4096
    """Tokens of a review at most, the end token included."""
    min_count: int = 15
    """Characters seen less often in the training reviews become the unknown token."""
    validation: float = 0.1
    """Share of the 25,000 training reviews that is held out."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.length < 2 or self.min_count < 1:
            raise ArgumentError(f"need length >= 2 and min_count >= 1, got {self.length} and {self.min_count}")

    def check(self, root: Path) -> None:
        """As many reviews as there are, and these, byte for byte."""
        self._check_counts(root)
        if (found := digest_of_reviews(root / "aclImdb")) == self.digest:
            return
        for split in ("train", "test"):
            read_reviews(root / "aclImdb", split)  # some damage can be named by file, which says more than a digest
        raise DataError(
            f"{root / 'aclImdb'} is not as published: the digest of its reviews is {found}, not {self.digest}, so that "
            "at least one was changed, cut short, renamed or moved; remove the folder, then "
            f"{self._remedy(root)}"
        )

    def _check_counts(self, root: Path) -> None:
        expected = self.reviews_per_folder
        for name in self.published:
            try:
                files = [entry for entry in os.scandir(root / name) if not entry.name.startswith(".")]
                empty = [entry.path for entry in files if not entry.is_file() or not entry.stat().st_size]
            except OSError as error:
                raise DataError(f"cannot read {root / name} ({error.strerror}): {self._remedy(root)}") from None
            if empty:
                raise DataError(f"{empty[0]} is empty or no file: {self._remedy(root)}")
            if len(files) != expected:
                remedy = self._remedy(root) if len(files) < expected else "move away what is not published"
                raise DataError(f"{root / name} holds {len(files)} reviews, published are {expected}: {remedy}")

    def build(self, out: Builder) -> Info:
        """Splits train, val and test; the vocabulary is that of all 25,000 training reviews."""
        texts, labels = self._read(out.root, "train")
        vocabulary = Vocabulary.of_characters(texts, min_count=self.min_count)
        for split, rows in zip(("train", "val"), held_out(len(texts), self.validation), strict=True):
            out.write(split, [vocabulary.encode(texts[i]) for i in rows], [labels[i] for i in rows])
        texts, labels = self._read(out.root, "test")
        out.write("test", [vocabulary.encode(text) for text in texts], labels)
        return Info("text", "published", self.length, vocabulary=vocabulary, classes=("negative", "positive"))

    def _read(self, root: Path, split: str) -> tuple[list[str], list[int]]:
        reviews = read_reviews(root / "aclImdb", split)
        return [text[: self.length - 1] for text, _, _ in reviews], [label for _, label, _ in reviews]
