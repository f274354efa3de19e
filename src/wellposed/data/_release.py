"""Where the files of the Long Range Arena's release are looked for."""

from __future__ import annotations

from pathlib import Path

_PREFIXES = (".", "lra_release", "lra_release/lra_release")


def released(root: Path, name: str) -> Path | None:
    """A file or folder of the release, unpacked into the data folder or into one of its own."""
    return next((path for prefix in _PREFIXES if (path := root / prefix / name).exists()), None)
