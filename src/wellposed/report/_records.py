"""Reading the records of a folder."""

from __future__ import annotations

from pathlib import Path

from wellposed.errors import RecordError
from wellposed.experiments import NAMES, Record, load_record


def read_records(folder: Path) -> list[Record]:
    """The records of a folder, in the order of the paper."""
    if not folder.is_dir():
        raise RecordError(
            f"there is no folder {folder}: run 'wellposed reproduce' first, or name another with --records"
        )
    found = [load_record(folder / f"{name}.json") for name in NAMES if (folder / f"{name}.json").exists()]
    if not found:
        raise RecordError(f"{folder} holds no record of {', '.join(NAMES)}: run 'wellposed reproduce' first")
    return found
