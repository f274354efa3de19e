"""Parameters of tasks against the types their fields declare: what a command line or a JSON file brings is anything."""

from __future__ import annotations

import math
import re
import types
from dataclasses import fields
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

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
        elif not _fits(value, hint):
            raise ArgumentError(f"{field.name} must be {_words(hint)}, got {value!r}")


def _fits(value: Any, hint: Any) -> bool:
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return any(_fits(value, each) for each in inner)
    if origin is Literal:
        return value in inner
    if origin is tuple:
        inner = inner[:1] * len(value) if isinstance(value, tuple) and inner[1:] == (...,) else inner
        return isinstance(value, tuple) and len(value) == len(inner) and all(map(_fits, value, inner))
    if hint is float:
        return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < math.inf
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63
    return not isinstance(hint, type) or origin is not None or isinstance(value, hint)


def _words(hint: Any) -> str:
    names = {int: "a whole number", float: "a finite number", str: "a text", bool: "true or false", type(None): "none"}
    if get_origin(hint) in (Union, types.UnionType):
        return " or ".join(map(_words, get_args(hint)))
    if get_origin(hint) is tuple:
        return f"a tuple of {', '.join('...' if each is ... else _words(each) for each in get_args(hint))}"
    if get_origin(hint) is Literal:
        return " or ".join(map(repr, get_args(hint)))
    return names.get(hint, str(hint))
