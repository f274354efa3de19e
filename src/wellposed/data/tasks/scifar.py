"""Sequential CIFAR: CIFAR-10 in colour or grey, pixel after pixel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from wellposed.data._dataset import Info
from wellposed.data.download import CIFAR10, CIFAR10_FILES, Download
from wellposed.data.readers import cifar
from wellposed.data.store import Builder
from wellposed.data.tasks._pixels import pixels, write_pixels
from wellposed.data.tasks._task import Task

# Means and deviations of the 50,000 training pictures, as measured.
_SCALES = {
    "rgb": ((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)),
    "grey": ((0.480861,), (0.239191,)),
}


@dataclass(frozen=True)
class SCIFAR(Task):
    """1024 pixels of CIFAR-10, of three colours or grey, ten classes: the data of the paper's robustness test."""

    name: ClassVar[str] = "scifar"
    title: ClassVar[str] = "sequential CIFAR-10, 1024 pixels in colour or grey"
    licence: ClassVar[str] = cifar.LICENCE
    published: ClassVar[Mapping[str, str | None]] = CIFAR10_FILES
    downloads: ClassVar[tuple[Download, ...]] = (CIFAR10,)

    colour: Literal["rgb", "grey"] = "rgb"
    validation: float = 0.1
    """Share of the 50,000 training pictures that is held out."""

    def build(self, out: Builder) -> Info:
        """Splits train, val and test."""
        (images, labels), (test, test_labels) = (cifar.read(out.root, train) for train in (True, False))
        if self.colour == "grey":
            images, test = cifar.grey(images), cifar.grey(test)
        write_pixels(out, images, labels, test, test_labels, self.validation)
        mean, std = _SCALES[self.colour]
        return pixels("scifar", 32, cifar.CLASSES, mean, std)
