"""What one sees of a sweep: a line for every run that ends, and on a terminal a table of those at work."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from wellposed.train._pool import Message
from wellposed.train._progress import Lines, Silence, describe


class Watcher:
    """Says lines, and shows nothing in between."""

    def __init__(self, voice: Silence) -> None:
        self._voice = voice

    def say(self, text: str) -> None:
        """A line for people."""
        self._voice.say(text)

    def show(self, working: Mapping[str, Message], counts: str) -> None:
        """How it stands with the runs at work."""

    def close(self) -> None:
        """No more."""


class LiveTable(Watcher):
    """A table below the lines, of the runs at work."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.live import Live

        self._live: Any = Live(console=Console(stderr=True), transient=True, auto_refresh=False)
        self._live.start()

    def say(self, text: str) -> None:
        """Above the table."""
        self._live.console.print(text, markup=False, highlight=False)

    def show(self, working: Mapping[str, Message], counts: str) -> None:
        """Draw it again."""
        from rich.table import Table

        table = Table(box=None, pad_edge=False, title=counts, title_justify="left")
        for name in ("run", "epoch", "", "sequences/s"):
            table.add_column(name)
        for name, facts in working.items():
            epoch = f"{facts['epoch']}/{facts['epochs']}" if "epoch" in facts else "starts"
            rate = f"{facts['rate']:.0f}" if "rate" in facts else ""
            table.add_row(name, epoch, describe(facts.get("metrics", {})), rate)
        self._live.update(table, refresh=True)

    def close(self) -> None:
        """The table goes."""
        self._live.stop()


def make_watcher(wanted: bool | None) -> Watcher:
    """A table or lines, whichever suits; nothing if it is not wanted."""
    if wanted is False:
        return Watcher(Silence())
    if sys.stderr.isatty():
        try:
            return LiveTable()
        except ImportError:  # rich, which is only for looks
            pass
    return Watcher(Lines())
