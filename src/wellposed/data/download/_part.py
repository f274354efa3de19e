"""The part of a file that has arrived, and what tells whether the rest still belongs to it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, BinaryIO


class Part:
    """``target.part``, and ``target.part.json`` with the version it is a part of.

    The note is removed before the bytes change hands and written before the first new ones: wherever a process is
    killed, bytes without a note are the worst that is left, and those are not built upon.
    """

    def __init__(self, target: Path, url: str) -> None:
        self.target = target
        self.path = target.with_name(f"{target.name}.part")
        self._note = target.with_name(f"{target.name}.part.json")
        self._url = url
        note = self._read_note()
        usable = note.get("url") == url and isinstance(note.get("validator"), str) and self.path.is_file()
        self.validator: str | None = note["validator"] if usable else None
        self.total: int | None = note.get("total") if usable else None
        self.size = self.path.stat().st_size if usable else 0

    def is_whole(self, size: int | None) -> bool:
        """Whether every byte is here."""
        total = size or self.total
        return total is not None and self.size == total and self.path.is_file()

    def begin(self, validator: str | None, total: int | None) -> None:
        """Start the version that ``validator`` names from its first byte."""
        self.discard()
        self.path.touch()
        self.validator, self.total = validator, total
        self._note.write_text(json.dumps({"url": self._url, "validator": validator, "total": total}))

    def append(self) -> BinaryIO:
        """The file, to write on; unbuffered, so that what was written is counted and kept."""
        return open(self.path, "ab", buffering=0)

    def end(self) -> None:
        """Every byte has arrived."""
        self.total = self.size

    def discard(self) -> None:
        """Forget what has arrived."""
        self._note.unlink(missing_ok=True)
        self.path.unlink(missing_ok=True)
        self.validator, self.total, self.size = None, None, 0

    def finish(self) -> None:
        """Give the part its name, once its bytes are on the disk."""
        with self.path.open("rb+") as file:
            os.fsync(file.fileno())
        os.replace(self.path, self.target)
        self._note.unlink(missing_ok=True)

    def _read_note(self) -> dict[str, Any]:
        try:
            note = json.loads(self._note.read_text())
        except (OSError, ValueError):
            return {}
        return note if isinstance(note, dict) else {}
