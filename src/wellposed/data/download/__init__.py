"""Published files: where they are, fetched and checked, unpacked."""

from wellposed.data.download._archive import unpack
from wellposed.data.download._fetch import Download, fetch
from wellposed.data.download._sources import CIFAR10, CIFAR10_FILES, IMDB, LONG_RANGE_ARENA, MNIST, MNIST_FILES

__all__ = [
    "CIFAR10",
    "CIFAR10_FILES",
    "IMDB",
    "LONG_RANGE_ARENA",
    "MNIST",
    "MNIST_FILES",
    "Download",
    "fetch",
    "unpack",
]
