"""CIFAR-10 as its authors publish it: what Image and sequential CIFAR are made from."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from jaxtyping import UInt8

from wellposed.data.download import CIFAR10_FILES
from wellposed.data.readers._cifar_pickle import read_batch

CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
LICENCE = "none stated; the authors ask to cite Krizhevsky, Learning Multiple Layers of Features from Tiny Images, 2009"


def read(root: Path, train: bool) -> tuple[UInt8[np.ndarray, "item row column colour"], UInt8[np.ndarray, " item"]]:
    """Pictures and labels in the order of the files."""
    parts = [read_batch(root / name) for name in CIFAR10_FILES if ("data_batch" in name) == train]
    images, labels = (np.concatenate(part) for part in zip(*parts, strict=True))
    return np.ascontiguousarray(images.transpose(0, 2, 3, 1)), labels


def grey(images: UInt8[np.ndarray, "*picture colour"]) -> UInt8[np.ndarray, "*picture 1"]:
    """Luma of ITU-R BT.601, rounded to whole numbers in fixed point as Pillow's mode L does."""
    red, green, blue = (images[..., c].astype(np.uint32) for c in range(3))
    return ((19595 * red + 38470 * green + 7471 * blue + 0x8000) >> 16).astype(np.uint8)[..., None]
