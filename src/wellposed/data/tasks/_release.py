"""Tasks of the Long Range Arena's release, whose files may be missing, and which can then be generated."""

from __future__ import annotations

import json
import logging
from abc import abstractmethod
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import ClassVar, Literal

from wellposed.data.store import builds, exists
from wellposed.data.tasks._task import Task
from wellposed.errors import ArgumentError, DataError

_PREFIXES = (".", "lra_release", "lra_release/lra_release")
_log = logging.getLogger("wellposed.data")


def released(root: Path, name: str) -> Path | None:
    """A file or folder of the release, unpacked into the data folder or into one of its own."""
    return next((path for prefix in _PREFIXES if exists(path := root / prefix / name)), None)


def compare_count(what: Path, found: int, published: int) -> None:
    """Say so where a part of the release is not as large as it is known to be."""
    if found != published:
        _log.warning("%s holds %d items, published are %d: is it whole?", what, found, published)


@dataclass(frozen=True)
class Released(Task):
    """Read from the published files, or generated from the same distribution."""

    generator: ClassVar[tuple[str, ...]] = ()
    """Parameters that only the generator has."""

    source: Literal["auto", "published", "generated"] = "auto"
    """``"auto"`` takes published files if there are some, and nothing is asked of the generator."""

    @property
    @abstractmethod
    def published_paths(self) -> list[str]:
        """The files or folders of the release that it is read from."""

    def resolved(self, root: Path) -> Released:
        """With the choice made between published and generated; what was prepared from published files stays so."""
        defaults = {field.name: field.default for field in fields(self)}
        generator_options = [name for name in self.generator if getattr(self, name) != defaults[name]]
        if self.source == "published" and generator_options:
            raise ArgumentError(f"{', '.join(generator_options)} can be chosen with source='generated' only")
        if self.source != "auto":
            return self
        published = replace(self, source="published")
        # Some of several files is taken for all of them, so that the missing ones are named. So is a build of another
        # version: what was published yesterday must not be generated today without a word.
        available = any(released(root, name) for name in self.published_paths) or any(
            build.parameters == json.loads(json.dumps(asdict(published))) for build in builds(root, self.name)
        )
        return published if available and not generator_options else replace(self, source="generated")

    def sources(self, root: Path) -> list[Path]:
        """The published files, if they are read."""
        if self.source == "generated":
            return []
        found = [(name, released(root, name)) for name in self.published_paths]
        if missing := [name for name, path in found if path is None]:
            raise DataError(f"there is no {root / missing[0]}: unpack the release there, or use source='generated'")
        return [path for _, path in found if path is not None]
