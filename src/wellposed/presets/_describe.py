"""A config in words, for whoever is about to train it: every field as it can be typed again, and what it will cost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from wellposed.errors import UnknownNameError
from wellposed.presets._estimate import estimate
from wellposed.train import RunConfig
from wellposed.train._progress import duration


def describe(config: RunConfig) -> list[str]:
    """Lines: the fields by their full names, then parameters, steps, memory and time as far as they can be told.

    >>> from wellposed.presets import preset
    >>> lines = describe(preset("scifar-grey-s4ptd"))
    >>> [line for line in lines if "lr" in line]
    ['optimizer.lr                        0.01', 'optimizer.ssm_lr                    0.001']
    >>> print(lines[-4])
    parameters                          184,842
    """
    return [f"{name:35} {value}" for name, value in (*fields_of(config), *_costs(config))]


def fields_of(config: RunConfig) -> list[tuple[str, str]]:
    """Every field by its full name, with its value as a command line takes it."""
    return list(_flat(config.to_dict()))


def _flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        elif value != "":
            yield prefix + name, _typed(value)


def _typed(value: Any) -> str:
    """As the command line takes it."""
    if isinstance(value, list):
        return ",".join(map(_typed, value)) if len(value) > 1 else str(tuple(value))
    return "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _costs(config: RunConfig) -> Iterator[tuple[str, str]]:
    try:
        cost = estimate(config)
    except UnknownNameError as error:
        yield "cost", f"cannot be told: {error}"
        return
    yield "parameters", f"{cost.parameters:,}"
    yield "steps", f"{cost.steps:,}, {cost.steps // config.epochs:,} an epoch"
    yield "memory, about", f"{cost.memory / 2**30:.2g} GiB"
    yield "time on an H200, about", duration(cost.seconds)
