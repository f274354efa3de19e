"""What the tasks look like to a model and how much there is of them: known before any data is there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from wellposed.errors import UnknownNameError
from wellposed.train import DataConfig, EvaluationConfig

LRA = ("listops", "text", "retrieval", "image", "pathfinder", "pathx")
"""The tasks of the Long Range Arena, in the order of its tables."""


@dataclass(frozen=True, kw_only=True)
class TaskShape:
    """The sequences of a task."""

    length: int
    """Steps of the longest."""
    mean_length: int | None = None
    """Where lengths differ: that is what costs time, padding to the longest of a batch of similar ones."""
    channels: int = 1
    vocabulary: int | None = None
    outputs: int = 2
    """Classes, or numbers to predict."""
    pairs: bool = False
    train: int
    """Items to learn from in an epoch ..."""
    val: int
    """... and to evaluate on after it."""

    @property
    def sizes(self) -> dict[str, int | None]:
        """What a model must know of them, as ``SequenceDataset.sizes`` says it."""
        if self.vocabulary is None:
            return {"d_input": self.channels, "d_output": self.outputs}
        return {"d_input": None, "d_output": self.outputs, "vocabulary": self.vocabulary, "padding_idx": 0}

    @property
    def steps(self) -> int:
        """Of an item on average, both sequences of a pair together."""
        return (self.mean_length or self.length) * (2 if self.pairs else 1)


# Sizes of published splits; ListOps and Pathfinder come as large when generated. Mean lengths are those of
# results/datasets.json, where documents are cut at the longest length; those of Retrieval nearly all are.
SHAPES: dict[str, TaskShape] = {
    "listops": TaskShape(length=2048, mean_length=1040, vocabulary=18, outputs=10, train=96_000, val=2_000),
    "text": TaskShape(length=4096, mean_length=1300, vocabulary=134, train=22_500, val=2_500),
    "retrieval": TaskShape(length=4000, vocabulary=98, pairs=True, train=147_086, val=18_090),
    "retrieval-peerread": TaskShape(length=4000, vocabulary=492, pairs=True, train=41_614, val=5_532),
    "image": TaskShape(length=1024, outputs=10, train=45_000, val=5_000),
    "pathfinder": TaskShape(length=1024, train=160_000, val=20_000),
    "pathx": TaskShape(length=16_384, train=160_000, val=20_000),
    "scifar": TaskShape(length=1024, channels=3, outputs=10, train=45_000, val=5_000),
    "smnist": TaskShape(length=784, outputs=10, train=54_000, val=6_000),
    "sinusoids": TaskShape(length=10_000, outputs=2, train=1000, val=250),
    "toy": TaskShape(length=64, train=64, val=16),
}
"""Shapes by the name of the task, as it is without options."""

_MULTIPLE = 256
"""What padded lengths are rounded up to, where they differ: a step is recorded once for each length."""


def batches_of(task: str, batch_size: int, *, centred: bool = False) -> DataConfig:
    """Batches of a task as it is without options; ``centred`` pixels of Pathfinder go from -1 to 1."""
    normalize = (0.5, 0.5) if centred and task in _PICTURES else None
    multiple = _MULTIPLE if SHAPES[task].mean_length else 1
    return DataConfig(task=task, normalize=normalize, batch_size=batch_size, multiple=multiple)


def settled(norm: str) -> EvaluationConfig:
    """Evaluations with statistics that belong to the weights, which the papers' own lag behind by a dozen steps or two.

    docs/devdocs/decisions.md#statistics-are-settled
    """
    return EvaluationConfig(settle=50 if norm == "batch" else 0)


_GREY = {"image": (122.6, 61.0), "pathfinder": (0.0, 255.0), "pathx": (0.0, 255.0)}
"""Mean and deviation by which pixels from 0 to 255 are scaled."""


def pixel_levels(task: str) -> dict[str, Any]:
    """Fields of a model that takes pixels as tokens; none for tasks of tokens."""
    if task not in _GREY:
        return {}
    mean, std = _GREY[task]
    return {"encoding": "levels", "levels": 256, "lowest": -mean / std, "highest": (255 - mean) / std}


def shape_of(task: str, options: Mapping[str, Any] | None = None) -> TaskShape:
    """The shape of a task with these options, as far as they change it.

    >>> shape_of("scifar", {"colour": "grey"}).channels
    1
    """
    if task not in SHAPES:
        raise UnknownNameError("task of known shape", task, SHAPES)
    given, usual = dict(options or {}), SHAPES[task]
    if "count" in given:  # of all splits of pictures together, of waves to train on
        count = given.pop("count")
        given |= (
            {"train": count * 8 // 10, "val": count // 10} if task in _PICTURES else {"train": count, "val": count // 4}
        )
    if given.pop("colour", None) == "grey":
        given["channels"] = 1
    changes = {field: given[option] for option, field in _OPTIONS.items() if option in given}
    if usual.mean_length is not None:
        changes["mean_length"] = min(usual.mean_length, changes.get("length", usual.length))
    return TaskShape(**vars(usual) | changes)


_PICTURES = ("pathfinder", "pathx")
_OPTIONS = {"steps": "length", "classes": "outputs"} | {
    name: name for name in ("length", "channels", "vocabulary", "pairs", "train", "val")
}
"""From options of tasks to what they change."""
