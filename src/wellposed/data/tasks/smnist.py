"""Sequential MNIST: handwritten digits, pixel after pixel, in order or permuted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch

from wellposed.data._dataset import Info
from wellposed.data.download import MNIST, MNIST_FILES, Download
from wellposed.data.readers import read_idx
from wellposed.data.store import Builder
from wellposed.data.tasks._pixels import pixels, write_pixels
from wellposed.data.tasks._task import Task

_FOLDER = "MNIST/raw"


@dataclass(frozen=True)
class SMNIST(Task):
    """784 pixels of MNIST, ten classes; ``permuted`` shuffles the pixels, all pictures alike."""

    name: ClassVar[str] = "smnist"
    title: ClassVar[str] = "sequential MNIST, 784 pixels"
    licence: ClassVar[str] = "none in the files; commonly given as CC BY-SA 3.0"
    published: ClassVar[Mapping[str, str | None]] = {f"{_FOLDER}/{name}": sum for name, sum in MNIST_FILES.items()}
    downloads: ClassVar[tuple[Download, ...]] = MNIST
    unpack_to: ClassVar[str] = _FOLDER

    permuted: bool = False
    validation: float = 0.1
    """Share of the 60,000 training pictures that is held out."""

    def build(self, out: Builder) -> Info:
        """Splits train, val and test."""
        arrays = [read_idx(out.root / _FOLDER / name) for name in MNIST_FILES]
        images, labels, test, test_labels = (self._ordered(a)[..., None] if a.ndim == 3 else a for a in arrays)
        write_pixels(out, images, labels, test, test_labels, self.validation)
        return pixels("smnist", 28, tuple("0123456789"), mean=(0.1307,), std=(0.3081,))

    def _ordered(self, images: np.ndarray) -> np.ndarray:
        if not self.permuted:
            return images
        order = torch.randperm(784, generator=torch.Generator().manual_seed(42)).numpy()
        return images.reshape(len(images), 784)[:, order].reshape(images.shape)
