"""What lies in the data folder, of whichever version of the library."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wellposed.data.store import _manifest
from wellposed.errors import DataError


@dataclass(frozen=True)
class Build:
    """A prepared task as its manifest describes it; one of another version is named here and never touched."""

    folder: Path
    task: str
    version: int
    format: int
    parameters: dict[str, Any]
    made_by: str

    @property
    def nbytes(self) -> int:
        """Room of its arrays."""
        return sum(path.stat().st_size for path in self.folder.rglob("*.npy"))


def builds(root: Path, task: str | None = None) -> list[Build]:
    """Every prepared task below ``root``, or those of one name; folders without a manifest are passed over.

    That of a task as it is now is the one whose folder is called ``task.key``.
    """
    try:
        folders = sorted(path for path in (root / "prepared").iterdir() if not path.name.startswith("."))
    except FileNotFoundError:
        return []
    except OSError as error:
        raise DataError(f"cannot read {root / 'prepared'}: {error.strerror or error}; give another root") from None
    found = [build for folder in folders if (build := _described(folder)) is not None]
    return [build for build in found if task in (None, build.task)]


def _described(folder: Path) -> Build | None:
    # Not _manifest.read, which believes those of the present format only.
    try:
        manifest = json.loads((folder / _manifest.FILE).read_text(encoding="utf-8"))
        names = ("task", "version", "format", "parameters", "made_by")
        return Build(folder, *(manifest[name] for name in names))
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
