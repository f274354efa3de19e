"""What ``reproduce`` and ``report`` end with: the verdicts on the terminal, and the page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from wellposed.errors import ConvergenceError

if TYPE_CHECKING:
    from wellposed.records import Record

_COLOURS = {"reproduced": "green", "corrected": "yellow", "ours": "cyan", "differs": "bold red"}


def show_verdicts(records: list[Record], out: Path) -> Path:
    """Print the verdicts and write the page; a claim that differs makes the command fail.

    Not so where models were trained for it at full size.
    """
    from wellposed.report import verdicts, write_page

    _print(records)
    page = write_page(records, out / "index.html")
    # What comes out of training is found out, and published whatever it is: nothing is wrong with the program then.
    settled = [record for record in records if record.data.get("form") != "full"]
    differs = [record.experiment for record in settled if any(v.word == "differs" for v in verdicts(record))]
    if differs:
        raise ConvergenceError(f"some numbers differ from what is expected, in {', '.join(differs)}: see {page}")
    return page


def _print(records: list[Record]) -> None:
    from wellposed.report import verdicts

    console = Console()
    if not console.is_terminal:
        for record in records:
            for v in verdicts(record):
                numbers = f"{v.measured} (expected {v.expected}, paper: {v.paper})"
                print(f"{v.word:10}  {record.experiment:21}  {v.text}: {numbers}")
        return
    table = Table("experiment", "quantity", "paper", "measured", "off by", "verdict", box=None, pad_edge=False)
    for record in records:
        for k, v in enumerate(verdicts(record)):
            name = record.experiment if k == 0 else ""
            table.add_row(name, v.text, v.paper, v.measured, v.difference, f"[{_COLOURS[v.word]}]{v.word}[/]")
    console.print(table)
