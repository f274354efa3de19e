"""Values of the fields of a config: checked against the field's type, read from JSON or from the command line."""

from __future__ import annotations

import ast
import math
import types
from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from wellposed.errors import ArgumentError, UnknownNameError

_NAMES = {int: "a whole number", float: "a finite number", str: "a text", bool: "true or false", type(None): "none"}
_WORDS = {"true": True, "yes": True, "false": False, "no": False, "none": None, "null": None}


@cache
def hints_of(config: type) -> dict[str, Any]:
    """The type of every field."""
    hints = get_type_hints(config)
    return {field.name: hints[field.name] for field in fields(config)}


def checked(value: Any, hint: Any, name: str) -> Any:
    """``value`` as its field keeps it, lists as tuples; anything else is refused by name."""
    value = plain(value)
    choices = [each for each in _alternatives(hint) if get_origin(each) is Literal]
    if choices and isinstance(value, str) and not _fits(value, hint):
        raise UnknownNameError(name, value, [word for each in choices for word in get_args(each)])
    if not _fits(value, hint):
        raise ArgumentError(f"{name} must be {_words(hint)}, got {value!r}")
    return value


def plain(value: Any) -> Any:
    """What JSON knows, in one form: sequences are tuples, mappings dictionaries of our own."""
    if isinstance(value, list | tuple):
        return tuple(plain(each) for each in value)
    if isinstance(value, Mapping):
        return {key: plain(each) for key, each in value.items()}
    return value


def parsed(text: str, hint: Any, name: str) -> Any:
    """What a text from the command line means for a field of this type."""
    kinds = _alternatives(hint)
    if any(get_origin(each) is Literal and text in get_args(each) for each in kinds):
        return text
    value = _literal(text)
    if any(get_origin(each) is tuple for each in kinds) and value is not None and not isinstance(value, tuple):
        value = tuple(map(_literal, text.split(","))) if isinstance(value, str) else (value,)
    if str in kinds and not _fits(plain(value), hint):
        return text  # a name that looks like a number
    return checked(text if hint is str else value, hint, name)


def _literal(text: str) -> Any:
    """A number, a list of some, true, false or none; a text where it is none of these."""
    text = text.strip()
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    try:
        return plain(ast.literal_eval(text))
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text


def _alternatives(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)


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
    kind = origin or hint
    return not isinstance(kind, type) or isinstance(value, kind)


def _words(hint: Any) -> str:
    if get_origin(hint) in (Union, types.UnionType):
        parts = [each for each in get_args(hint) if not (each is int and float in get_args(hint))]
        return " or ".join(map(_words, parts))
    if get_origin(hint) is tuple:
        return f"a tuple of {', '.join('...' if each is ... else _words(each) for each in get_args(hint))}"
    if get_origin(hint) is Literal:
        return " or ".join(map(repr, get_args(hint)))
    return _NAMES.get(hint, "options by name" if get_origin(hint) is not None else str(hint))
