"""Numbers that were measured on a run, kept beside it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wellposed._files import make_folder, write_whole
from wellposed._locks import locked
from wellposed.errors import RecordError
from wellposed.experiments._training import LEAST_MINUTES
from wellposed.train._folder import read_json

if TYPE_CHECKING:
    from wellposed.experiments._campaign import Campaign

_PLAIN_FLOATS = 6
"""Significant digits of what is measured."""


class TimeIsUp(Exception):
    """The slice is over: what has been measured is kept, the rest is for the next one."""


class Measured:
    """Numbers by name in a file beside the run, each computed once, whatever happens in between."""

    def __init__(self, path: Path, campaign: Campaign) -> None:
        self._path, self._campaign, self._told = path, campaign, False
        self._values = self._read()

    def __call__(self, name: str, compute: Callable[[], Any]) -> Any:
        """The value of that name, computed if there is none yet and time is left."""
        if name not in self._values:
            if self._campaign.minutes_left < LEAST_MINUTES:
                raise TimeIsUp
            if not self._told:
                self._campaign.say(f"measuring {self._path.parent.name}")
            self._told = True
            self.put(name, compute())
        return self._values[name]

    def put(self, name: str, value: Any) -> None:
        """Keep a value, in the place of another of that name; what another process has measured meanwhile stays."""
        make_folder(self._path.parent)
        with locked(self._path.parent / ".measured.lock"):
            self._values = self._read() | {name: rounded(value)}
            write_whole(self._path, json.dumps(self._values) + "\n")

    def _read(self) -> dict[str, Any]:
        """What is in the file; a damaged one is set aside, and what it held is measured again."""
        if not self._path.exists():
            return {}
        try:
            return read_json(self._path)
        except RecordError as error:
            aside = self._path.with_name(f"damaged-{self._path.name}")
            self._path.replace(aside)
            self._campaign.say(f"{error}; it is {aside.name} now, and measured again")
            return {}

    def get(self, name: str) -> Any:
        """The value, or ``None``."""
        return self._values.get(name)


def rounded(value: Any) -> Any:
    """Numbers in lists and mappings to the digits that are kept."""
    if isinstance(value, dict):
        return {name: rounded(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(each) for each in value]
    return float(f"{value:.{_PLAIN_FLOATS}g}") if isinstance(value, float) else value
