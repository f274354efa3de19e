"""Values of the fields of a config: checked against the field's type, read from JSON or from the command line."""

from __future__ import annotations

import ast
import types
from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from wellposed._checks import fits, words_for
from wellposed.errors import ArgumentError, UnknownNameError

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
    if choices and isinstance(value, str) and not fits(value, hint):
        raise UnknownNameError(name, value, [word for each in choices for word in get_args(each)])
    if not fits(value, hint):
        raise ArgumentError(f"{name} must be {words_for(hint)}, got {value!r}")
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
    if str in kinds and not fits(plain(value), hint):
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
