"""What the configs share: checks when one is made, and the way to JSON and back."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any, TypeVar

from wellposed.errors import ArgumentError, UnknownNameError
from wellposed.train._values import checked, hints_of

Own = TypeVar("Own", bound="Config")


class Config:
    """A frozen dataclass whose fields are checked when one is made."""

    def __post_init__(self) -> None:
        for name in hints_of(type(self)):
            # Frozen, hence the detour: JSON knows no tuples, and a mapping may be changed by whoever gave it.
            object.__setattr__(self, name, _kept(type(self), name, getattr(self, name)))
        self._check()

    def _check(self) -> None:
        """Refuse values that are out of range, or do not go together."""

    def replace(self: Own, **changes: Any) -> Own:
        """The same with other values."""
        _refuse_unknown(type(self), changes)
        kept = {name: _kept(type(self), name, value) for name, value in changes.items()}
        return dataclasses.replace(self, **kept)  # pyright: ignore[reportArgumentType]

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it; ``from_dict`` makes an equal config of it."""
        values = {name: getattr(self, name) for name in hints_of(type(self))}
        return {k: v.to_dict() if isinstance(v, Config) else _as_json(v, k) for k, v in values.items()}

    @classmethod
    def from_dict(cls: type[Own], values: Mapping[str, Any]) -> Own:
        """What ``to_dict`` was called on; fields that are missing have their defaults."""
        _refuse_unknown(cls, values)
        if missing := [name for name in required(cls) if name not in values]:
            raise ArgumentError(f"{cls.__name__} lacks {', '.join(missing)}")
        nested = {name: hint for name, hint in hints_of(cls).items() if _is_config(hint)}
        for name in nested:
            if not isinstance(values.get(name, {}), Mapping):
                raise ArgumentError(f"{name} is read from values by name, got {values[name]!r}")
        return cls(**{k: nested[k].from_dict(v) if k in nested else _kept(cls, k, v) for k, v in values.items()})


def _is_config(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, Config)


def _kept(config: type, name: str, value: Any) -> Any:
    """The value of a field as it is kept, or why it cannot be."""
    hint = hints_of(config)[name]
    if not _is_config(hint):
        return checked(value, hint, name)
    if not isinstance(value, hint):
        raise ArgumentError(f"{name} must be of {hint.__name__}, got {value!r}")
    return value


def required(config: type) -> list[str]:
    """Fields without a default."""
    unset = dataclasses.MISSING
    return [f.name for f in dataclasses.fields(config) if f.default is unset and f.default_factory is unset]


def _refuse_unknown(config: type, names: Mapping[str, Any]) -> None:
    for name in names:
        if name not in hints_of(config):
            raise UnknownNameError(f"field of {config.__name__}", name, hints_of(config))


def at_least(where: str, config: Config, **lowest: int) -> None:
    for name, low in lowest.items():
        value = getattr(config, name)
        if value is not None and value < low:
            raise ArgumentError(f"{f'{where}.' if where else ''}{name} must be at least {low}, got {value}")


def _as_json(value: Any, name: str) -> Any:
    try:
        return json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError):
        raise ArgumentError(
            f"{name} = {value!r} cannot be written to a file, which a run needs to be resumed: name layers "
            "(layer='s4ptd') and use plain numbers, texts and lists"
        ) from None
