"""What a task is: a name, parameters, and how its splits are built."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import ClassVar

import torch

from wellposed import _checks
from wellposed.data._dataset import Info
from wellposed.data.download import Download
from wellposed.data.store import FORMAT, Builder, check_fields, exists, is_name, verify
from wellposed.errors import ArgumentError, DataError


@dataclass(frozen=True)
class Task(ABC):
    """A data set that can be prepared. Subclass it as a frozen dataclass whose fields are its parameters.

    What is built depends on the fields, the files that ``sources`` names and ``version`` alone: when one of them
    changes, it is built anew. A field called ``seed`` is checked as every seed of the library is.
    """

    name: ClassVar[str]
    """Of letters, digits and hyphens."""
    title: ClassVar[str] = ""
    licence: ClassVar[str] = ""
    version: ClassVar[int] = 1
    """Counts the ways ``build`` has worked; raise it when the same files would give other arrays."""
    published: ClassVar[Mapping[str, str | None]] = {}
    """Files and folders that its authors publish, below the data folder, with their checksums if they have some."""
    downloads: ClassVar[tuple[Download, ...]] = ()
    """What ``wellposed data fetch`` gets ..."""
    unpack_to: ClassVar[str] = "."
    """... and where below the data folder it unpacks it."""

    def __post_init__(self) -> None:
        if getattr(self, "seed", None) is not None:
            # Frozen, hence the detour: a NumPy integer is kept as an int, which JSON and the folder's name can take.
            object.__setattr__(self, "seed", _checks.seed(getattr(self, "seed")))  # noqa: B009
        check_fields(self)

    def sources(self, root: Path) -> list[Path]:
        """Files or folders it is built from, below ``root``; raises ``DataError`` where they are missing."""
        for name in self.published:
            if not exists(root / name):
                raise DataError(f"there is no {root / name}: {self._remedy(root)}")
        return [root / name for name in self.published]

    def check(self, root: Path) -> None:
        """Compare them with what is published of them; raises ``DataError`` where they differ."""
        for name, checksum in self.published.items():
            if checksum is not None:
                verify(root / name, checksum)

    def _remedy(self, root: Path) -> str:
        if not self.downloads:
            return "it cannot be fetched, put it there"
        files = ", ".join(download.file for download in self.downloads)
        return f"run 'wellposed data fetch {self.name} --root {root}', or unpack {files} in {root / self.unpack_to}"

    @abstractmethod
    def build(self, out: Builder) -> Info:
        """Write every split with ``out.write``, and say what the sequences are."""

    def resolved(self, root: Path) -> Task:
        """The same with all choices made that depend on what is on disk."""
        return self

    @property
    def key(self) -> str:
        """Name of its folder: the task's, and a hash of the parameters and of what makes builds incompatible.

        Were the versions not part of it, two versions of the library with one data folder would each take the build of
        the other for a stale one and replace it, in turn.
        """
        name = getattr(self, "name", None)
        if not is_name(name):
            raise ArgumentError(f"{type(self).__name__}.name is of letters, digits and hyphens, not {name!r}")
        try:
            made_as = {"format": FORMAT, "version": self.version, "parameters": asdict(self)}
            text = json.dumps(made_as, sort_keys=True, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise ArgumentError(f"{self}: parameters are finite numbers, texts and tuples of them: {error}") from None
        return f"{self.name}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"

    def folder(self, root: Path) -> Path:
        """Where the prepared task is, or will be."""
        return root / "prepared" / self.key


def held_out(count: int, *shares: float, seed: int = 42) -> list[list[int]]:
    """Disjoint parts of ``range(count)``, each in order: what is left, then a part of ``shares[k]`` for each.

    The draw is that of ``torch.utils.data.random_split`` with the same seed, which S4's published code uses for
    pictures.

    >>> [len(part) for part in held_out(1000, 0.1, 0.1)]
    [800, 100, 100]
    """
    if not all(0 < share < 1 for share in shares) or sum(shares) >= 1:
        raise ArgumentError(f"held-out parts must be between 0 and 1 and leave some over, got {shares}")
    sizes = [int(count * share) for share in shares]
    sizes = [count - sum(sizes), *sizes]
    if min(sizes) < 1:
        raise ArgumentError(f"{count} items leave a part of {min(shares)} of them empty: hold out more")
    order = torch.randperm(count, generator=torch.Generator().manual_seed(_checks.seed(seed)))
    return [sorted(part.tolist()) for part in order.split(sizes)]
