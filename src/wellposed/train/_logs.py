"""The course of a run in files that anything can read: one row every so many steps, and one an epoch."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from wellposed._files import replace_whole
from wellposed.errors import RecordError
from wellposed.train._folder import TENSORBOARD

Row = dict[str, Any]
_FIRST = ("kind", "step", "epoch")
_LAST = ("lr", "samples_per_second", "seconds")


class Metrics:
    """``metrics.csv`` and ``metrics.jsonl``, and TensorBoard's files where it is installed, unless told otherwise."""

    def __init__(self, folder: Path, names: Sequence[str], *, tensorboard: bool | None = None) -> None:
        self._json, self._csv = folder / "metrics.jsonl", folder / "metrics.csv"
        splits = ("train", "val", "test")
        self._columns = [*_FIRST, *(f"{split}_{name}" for split in splits for name in names), *_LAST]
        self._boards, self._board = folder / TENSORBOARD, None
        self._writer = _writer(tensorboard)

    def begin(self, step: int) -> None:
        """Forget rows after ``step``: they were written by a run that was stopped before its next checkpoint."""
        rows = [row for row in self.rows() if row["step"] <= step]
        try:
            replace_whole(self._json, "".join(_line(row) for row in rows))
            replace_whole(self._csv, self._table([dict(zip(self._columns, self._columns, strict=True)), *rows]))
        except OSError as error:
            raise _unwritable(self._json, error) from None
        if self._writer is not None:
            self._board = self._writer(str(self._boards), purge_step=step + 1)  # which hides rows after it

    def add(self, row: Row) -> None:
        """One more, in all files; numbers that are not finite are left out."""
        row = {name: value for name, value in row.items() if not _is_odd(value)}
        try:
            for path, text in ((self._json, _line(row)), (self._csv, self._table([row]))):
                with path.open("a", encoding="utf-8", newline="") as file:
                    file.write(text)
        except OSError as error:
            raise _unwritable(self._json, error) from None
        if self._board is not None:
            for name, value in row.items():
                if isinstance(value, float):
                    self._board.add_scalar(name, value, row["step"])

    def rows(self) -> list[Row]:
        """All rows; what was cut off when a run was killed is passed over."""
        return list(read_rows(self._json))

    def close(self) -> None:
        """Write what TensorBoard still holds."""
        if self._board is not None:
            self._board.close()

    def _table(self, rows: Sequence[Row]) -> str:
        out = io.StringIO()
        csv.DictWriter(out, self._columns, extrasaction="ignore", lineterminator="\n").writerows(rows)
        return out.getvalue()


def read_rows(path: Path) -> Iterator[Row]:
    """The rows of a ``metrics.jsonl``, those that can be read."""
    if not path.exists():
        return
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(row, dict) and isinstance(row.get("step"), int):
            yield row


def _line(row: Row) -> str:
    return json.dumps(row, allow_nan=False) + "\n"


def _is_odd(value: Any) -> bool:
    return value is None or (isinstance(value, float) and not math.isfinite(value))


def _unwritable(path: Path, error: OSError) -> RecordError:
    return RecordError(
        f"cannot write {path}: {error.strerror or error}. Checkpoints are kept: make room and start the run again"
    )


def _writer(wanted: bool | None) -> Any:
    """TensorBoard's class; nothing where it is not installed and nobody insists."""
    if wanted is False or (wanted is None and find_spec("tensorboard") is None):
        return None
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        if wanted is None:
            return None
        raise RecordError("TensorBoard is not installed: pip install tensorboard, or leave tensorboard out") from None
    return SummaryWriter
