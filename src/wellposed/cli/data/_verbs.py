"""The verbs of ``wellposed data``."""

from __future__ import annotations

from collections.abc import Callable

from wellposed.cli.data._jobs import fetch, prepare, verify
from wellposed.cli.data._list import list_tasks
from wellposed.cli.data._show import show

DATA_VERBS: dict[str, Callable[..., None]] = {
    "list": list_tasks,
    "fetch": fetch,
    "prepare": prepare,
    "verify": verify,
    "show": show,
}


def data() -> None:
    """Data sets: list, fetch, prepare, verify or show them. 'wellposed data --help' tells more."""
