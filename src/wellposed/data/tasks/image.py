"""Image: CIFAR-10 in grey, pixel after pixel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from wellposed.data._dataset import Info
from wellposed.data.download import CIFAR10, CIFAR10_FILES, Download
from wellposed.data.readers import cifar
from wellposed.data.store import Builder
from wellposed.data.tasks._pixels import pixels, write_pixels
from wellposed.data.tasks._task import Task


@dataclass(frozen=True)
class Image(Task):
    """The Long Range Arena's image task: 32 x 32 grey pixels of CIFAR-10 as 1024 steps, ten classes."""

    name: ClassVar[str] = "image"
    title: ClassVar[str] = "greyscale CIFAR-10, 1024 pixels"
    licence: ClassVar[str] = cifar.LICENCE
    published: ClassVar[Mapping[str, str | None]] = CIFAR10_FILES
    downloads: ClassVar[tuple[Download, ...]] = (CIFAR10,)

    validation: float = 0.1
    """Share of the 50,000 training pictures that is held out."""

    def build(self, out: Builder) -> Info:
        """Splits train, val and test."""
        images, labels = cifar.read(out.root, train=True)
        test, test_labels = cifar.read(out.root, train=False)
        write_pixels(out, cifar.grey(images), labels, cifar.grey(test), test_labels, self.validation)
        return pixels("image", 32, cifar.CLASSES, mean=(122.6 / 255,), std=(61 / 255,))
