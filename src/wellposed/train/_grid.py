"""Configs that differ in a few fields, under names that say in which."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from wellposed.errors import ArgumentError
from wellposed.train._config import RunConfig
from wellposed.train._folder import flat
from wellposed.train._overrides import with_overrides

_LONGEST = 200
"""Characters of a name, which is a folder's: file systems take 255 bytes."""
_UNNAMED = ("name", "note")


def grid(config: RunConfig, over: Mapping[str, Iterable[Any]]) -> dict[str, RunConfig]:
    """Every combination of the values of some fields, the last field changing fastest, by names made of what varies.

    Fields are named and values read as ``with_overrides`` does it. Where there is one value of a field, all configs
    have it and no name says so.

    >>> from wellposed.train import DataConfig
    >>> config = RunConfig(data=DataConfig(task="sinusoids"))
    >>> list(grid(config, {"optimizer.lr": [0.001, 0.01], "seed": [0, 1]}))
    ['lr=0.001,seed=0', 'lr=0.001,seed=1', 'lr=0.01,seed=0', 'lr=0.01,seed=1']
    """
    values = {field: _values(field, some) for field, some in over.items()}
    chosen = [dict(zip(values, each, strict=True)) for each in itertools.product(*values.values())]
    configs = [with_overrides(config, each) for each in chosen]
    varying = [field for field, some in values.items() if len(some) > 1]
    return _named(configs, varying)


def named(configs: Sequence[RunConfig]) -> dict[str, RunConfig]:
    """Configs by names made of the fields in which they differ."""
    fields = [flat(config.to_dict()) for config in configs]
    every = dict.fromkeys(field for each in fields for field in each if field not in _UNNAMED)
    missing = object()
    varying = [field for field in every if any(each.get(field, missing) != fields[0].get(field) for each in fields)]
    return _named(configs, varying)


def check_name(name: str) -> str:
    """Refuse what cannot be a folder's name."""
    if not name or name.startswith(".") or re.search(r"[/\\\0\n]", name) or len(name.encode()) > _LONGEST:
        raise ArgumentError(
            f"{name!r} cannot name a run: it is to be a folder's, without slashes, not hidden by a '.', and of at most "
            f"{_LONGEST} bytes. Name the configs yourself: {{name: config, ...}}"
        )
    return name


def _values(field: str, some: Iterable[Any]) -> list[Any]:
    if isinstance(some, str) or not isinstance(some, Iterable):
        raise ArgumentError(f"{field} is to go over several values: give a list such as [{some!r}]")
    found = [each.tolist() if isinstance(each, np.generic | np.ndarray) else each for each in some]
    if not found:
        raise ArgumentError(f"{field} has no value to go over: give one at least, or leave it out")
    return found


def _named(configs: Sequence[RunConfig], varying: Sequence[str]) -> dict[str, RunConfig]:
    short = {field: field.rpartition(".")[2] for field in varying}
    twice = {last for last in short.values() if list(short.values()).count(last) > 1}
    names: dict[str, RunConfig] = {}
    for config in configs:
        fields = flat(config.to_dict())
        parts = [
            f"{field if short[field] in twice else short[field]}={_text(fields.get(field, 'none'))}"
            for field in varying
        ]
        name = check_name(",".join(parts) or config.name or config.data.task)
        if name in names:
            raise ArgumentError(
                f"two configs would be called {name!r}: they are the same, or differ in what a name cannot hold. Leave "
                "one out, or name them yourself: {name: config, ...}"
            )
        names[name] = config
    return names


def _text(value: Any) -> str:
    """As short as it can be read back; what a folder's name cannot hold becomes ``_``."""
    if isinstance(value, list | tuple):
        return "+".join(map(_text, value))
    if isinstance(value, float) and float(f"{value:g}") == value:
        text = f"{value:g}"
    else:
        text = str(value).lower() if isinstance(value, bool) or value is None else str(value)
    return re.sub(r"[^\w.+-]", "_", text)
