"""Reading the records of a folder."""

from __future__ import annotations

from pathlib import Path

from wellposed.errors import RecordError
from wellposed.records import Record, load_record
from wellposed.report._figures import FIGURES


def read_records(folder: Path) -> list[Record]:
    """The records of a folder that have a drawing, in the order of the drawings, which is that of the paper."""
    if not folder.is_dir():
        raise RecordError(
            f"there is no folder {folder}: run 'wellposed reproduce' first, or name another with --records"
        )
    found = [load_record(folder / f"{name}.json") for name in FIGURES if (folder / f"{name}.json").exists()]
    if not found:
        raise RecordError(f"{folder} holds no record of {', '.join(FIGURES)}: run 'wellposed reproduce' first")
    return found
