"""Parameters of tasks against the types their fields declare: what a command line or a JSON file brings is anything."""

from __future__ import annotations

import re
from dataclasses import fields
from typing import Any, Literal, get_args, get_origin, get_type_hints

from wellposed._checks import fits, words_for
from wellposed.errors import ArgumentError, UnknownNameError

NAME = r"[A-Za-z0-9][A-Za-z0-9_-]*"
"""Of a task or a split, which become names of folders."""


def is_name(name: Any) -> bool:
    """Whether a folder may be called so."""
    return isinstance(name, str) and re.fullmatch(NAME, name) is not None


def check_fields(task: Any) -> None:
    """Refuse a value that is not of its field's type, by name."""
    try:
        hints = get_type_hints(type(task))
    except (NameError, TypeError):  # of a class inside a function, whose types cannot be looked up
        return
    for field in fields(task):
        value, hint = getattr(task, field.name), hints[field.name]
        if get_origin(hint) is Literal and isinstance(value, str):
            if value not in get_args(hint):
                raise UnknownNameError(field.name, value, get_args(hint))
        elif not fits(value, hint):
            raise ArgumentError(f"{field.name} must be {words_for(hint)}, got {value!r}")
