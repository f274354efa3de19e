"""Toy: sequences of any shape made in milliseconds, to stand in for data that must be fetched or takes long to make."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from jaxtyping import Float32, Int, Integer

from wellposed._checks import positive_int
from wellposed.data._dataset import Info
from wellposed.data._vocabulary import END, SPECIAL, Vocabulary
from wellposed.data.store import Builder
from wellposed.data.tasks._task import Task
from wellposed.errors import ArgumentError

_MARKED = 0.3
"""Share of tokens that tell the class."""
_NOISE = 0.3
"""Deviation of the noise over waves of amplitude 1."""
_FIRST = 0x4E00  # where 20,000 characters follow one another, so that each token is one


@dataclass(frozen=True)
class Toy(Task):
    """Sequences of a shape, with something to learn in them: for trying a program, not for judging a model.

    Numbers are noisy waves whose frequency is the class. Tokens are drawn at random, but three in ten are the token of
    the class; their lengths differ. Pairs are two such sequences, to be told whether they are of one kind.
    """

    name: ClassVar[str] = "toy"
    title: ClassVar[str] = "any shape, made at once, to try a program with"
    licence: ClassVar[str] = "generated"

    length: int = 64
    """Steps, of tokens at most: then lengths are between half of it and all of it."""
    channels: int = 1
    """Numbers a step, unless there is a vocabulary."""
    vocabulary: int | None = None
    """Tokens, the three special ones included."""
    classes: int = 2
    pairs: bool = False
    train: int = 64
    val: int = 16
    test: int = 16
    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("length", "channels", "classes", "train", "val", "test"):
            positive_int(getattr(self, name), name)
        if self.length < 4 or self.classes < 2:
            raise ArgumentError(f"need length >= 4 and classes >= 2, got {self.length} and {self.classes}")
        if self.vocabulary is not None and not len(SPECIAL) + 2 <= self.vocabulary <= 20_000:
            raise ArgumentError(f"a vocabulary has from {len(SPECIAL) + 2} to 20000 tokens, got {self.vocabulary}")
        if self.pairs and (self.vocabulary is None or self.classes != 2):
            raise ArgumentError("pairs are of tokens and have two classes: give a vocabulary, and leave classes out")

    def build(self, out: Builder) -> Info:
        """Splits train, val and test."""
        for place, split in enumerate(("train", "val", "test")):
            size = getattr(self, split)
            rng = np.random.Generator(np.random.PCG64(np.random.SeedSequence(self.seed, spawn_key=(place,))))
            labels = np.arange(size) % self.classes  # as many of each, so that the smallest split has all
            if self.pairs:
                first = rng.integers(2, size=size)
                kinds = np.stack([first, first ^ (1 - labels)], 1).ravel()
                out.write(split, self._texts(kinds, rng), labels, pairs=np.arange(2 * size).reshape(size, 2))
            else:
                x = self._waves(labels, rng) if self.vocabulary is None else self._texts(labels, rng)
                out.write(split, x, labels)
        names = tuple(map(str, range(self.classes)))
        if self.vocabulary is None:
            return Info("toy", "generated", self.length, channels=self.channels, classes=names)
        tokens = map(chr, range(_FIRST, _FIRST + self.vocabulary - len(SPECIAL)))
        words = Vocabulary((*SPECIAL, *tokens))
        return Info("toy", "generated", self.length, vocabulary=words, classes=names, pairs=self.pairs)

    def _waves(
        self, labels: Int[np.ndarray, " item"], rng: np.random.Generator
    ) -> Float32[np.ndarray, "item length channel"]:
        t = np.arange(self.length)[:, None] / self.length
        phase = rng.random((len(labels), 1, self.channels))
        waves = np.sin(2 * np.pi * ((labels[:, None, None] + 1) * t + phase))
        return (waves + _NOISE * rng.standard_normal(waves.shape)).astype(np.float32)

    def _texts(self, kinds: Int[np.ndarray, " text"], rng: np.random.Generator) -> list[Integer[np.ndarray, " length"]]:
        own, texts = (self.vocabulary or 0) - len(SPECIAL), []
        for kind in kinds.tolist():
            size = rng.integers(self.length // 2, self.length)
            drawn = np.where(rng.random(size) < _MARKED, kind % own, rng.integers(own, size=size))
            texts.append(np.append(drawn + len(SPECIAL), END).astype(np.int16))
        return texts
