"""Pictures as sequences of pixels."""

from __future__ import annotations

import numpy as np
from jaxtyping import UInt8

from wellposed.data._dataset import Info, Source
from wellposed.data.store import Builder
from wellposed.data.tasks._task import held_out

Pictures = UInt8[np.ndarray, "_ row column colour"]
Labels = UInt8[np.ndarray, " _"]


def write_pixels(
    out: Builder, images: Pictures, labels: Labels, test: Pictures, test_labels: Labels, validation: float
) -> None:
    """Train and val from the official training part, test from the official test part, row by row."""
    for split, rows in zip(("train", "val"), held_out(len(images), validation), strict=True):
        out.write(split, _flat(images[rows]), labels[rows])
    out.write("test", _flat(test), test_labels)


def pixels(
    task: str,
    size: int,
    classes: tuple[str, ...],
    mean: tuple[float, ...],
    std: tuple[float, ...],
    source: Source = "published",
) -> Info:
    """What such sequences are; as many channels as means."""
    length, channels, picture = size * size, len(mean), (size, size)
    return Info(task, source, length, channels=channels, classes=classes, picture=picture, mean=mean, std=std)


def _flat(images: Pictures) -> UInt8[np.ndarray, "_ length colour"]:
    return images.reshape(len(images), -1, images.shape[-1])
