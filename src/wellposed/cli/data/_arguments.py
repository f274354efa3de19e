"""Arguments of the verbs of ``wellposed data``."""

from __future__ import annotations

import json
from typing import Annotated, Any

import tyro

from wellposed.errors import ArgumentError

Name = Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="NAME")]
Options = Annotated[tuple[str, ...], tyro.conf.arg(metavar="[KEY=VALUE ...]")]


def parsed(options: tuple[str, ...]) -> dict[str, Any]:
    """``key=value`` with the value as JSON has it, or else as it stands."""
    found = {}
    for option in options:
        key, equals, value = option.partition("=")
        if not key or not equals:
            raise ArgumentError(f"an option is written KEY=VALUE, such as seed=1, got {option!r}")
        try:
            parsed = json.loads(value)
            found[key] = tuple(parsed) if isinstance(parsed, list) else parsed
        except (ValueError, RecursionError):
            found[key] = value
    return found
