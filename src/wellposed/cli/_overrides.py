"""Fields of a config as options of a verb: ``--optimizer.lr 0.003`` is read as ``--set optimizer.lr=0.003``.

Lists of ``KEY=VALUE`` may be given in several parts: ``--over a=1,2 --over b=3,4`` is ``--over a=1,2 b=3,4``.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Annotated

import tyro

from wellposed.errors import ArgumentError, UnknownNameError

_LISTS = ("set", "over")
Settings = Annotated[tuple[str, ...], tyro.conf.arg(metavar="[KEY=VALUE ...]")]


def spelled_out(verb: Callable[..., None], arguments: Sequence[str]) -> list[str]:
    """The arguments of a verb with options that are fields of a config gathered behind ``--set``, lists each in one.

    >>> def verb(name: str, dry_run: bool = False, set: tuple[str, ...] = ()) -> None: ...
    >>> spelled_out(verb, ["a", "--optimizer.lr", "0.003", "--dry-run", "--epochs=3"])
    ['a', '--dry-run', '--set', 'optimizer.lr=0.003', 'epochs=3']
    """
    own = {name.replace("_", "-") for name in inspect.signature(verb).parameters}
    lists: dict[str, list[str]] = {name: [] for name in _LISTS if name in own}
    kept, rest = [], list(arguments)
    while rest:
        word = rest.pop(0)
        name, equals, value = word.removeprefix("--").partition("=")
        plain = name.replace("_", "-")
        if word.startswith("--") and name in lists:
            lists[name] += [value] if equals else []
            while rest and not rest[0].startswith("--"):
                lists[name].append(rest.pop(0))
        elif not word.startswith("--") or plain in own or plain.removeprefix("no-") in own or name == "help":
            kept.append(word)
        else:
            _check(name, own)
            lists["set"].append(f"{name.replace('-', '_')}={value if equals else _value(name, rest)}")
    return kept + [word for name, some in lists.items() if some for word in (f"--{name}", *some)]


def _check(name: str, own: set[str]) -> None:
    """Refuse what is neither an option nor a field; names with a dot are looked at with the config at hand."""
    from wellposed.train import RunConfig

    fields = RunConfig.__dataclass_fields__
    if "." not in name and name.replace("-", "_") not in fields:
        raise UnknownNameError("option", f"--{name}", [f"--{known}" for known in (*own, *fields)])


def _value(name: str, rest: list[str]) -> str:
    if not rest or rest[0].startswith("--"):
        raise ArgumentError(f"--{name} needs a value, as in --{name} VALUE")
    return rest.pop(0)
