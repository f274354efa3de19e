"""What the configs share: checks when one is made, and the way to JSON and back."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any, TypeVar

from wellposed.errors import ArgumentError, UnknownNameError
from wellposed.train._values import checked, hints_of, plain

Own = TypeVar("Own", bound="Config")


class Config:
    """A frozen dataclass whose fields are checked when one is made."""

    def __post_init__(self) -> None:
        for name, hint in hints_of(type(self)).items():
            if not (isinstance(hint, type) and issubclass(hint, Config)):
                # Frozen, hence the detour: JSON knows no tuples, and a mapping may be changed by whoever gave it.
                object.__setattr__(self, name, checked(getattr(self, name), hint, name))
            elif not isinstance(getattr(self, name), hint):
                raise ArgumentError(f"{name} must be a {hint.__name__}, got {getattr(self, name)!r}")
        self._check()

    def _check(self) -> None:
        """Refuse values that are out of range, or do not go together."""

    def replace(self: Own, **changes: Any) -> Own:
        """The same with other values."""
        _refuse_unknown(type(self), changes)
        return dataclasses.replace(self, **changes)  # pyright: ignore[reportArgumentType]

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it; ``from_dict`` makes an equal config of it."""
        values = {name: getattr(self, name) for name in hints_of(type(self))}
        return {k: v.to_dict() if isinstance(v, Config) else _as_json(v, k) for k, v in values.items()}

    @classmethod
    def from_dict(cls: type[Own], values: Mapping[str, Any]) -> Own:
        """What ``to_dict`` was called on; fields that are missing have their defaults."""
        if not isinstance(values, Mapping):
            raise ArgumentError(f"a {cls.__name__} is read from values by name, got {values!r}")
        _refuse_unknown(cls, values)
        if missing := [name for name in required(cls) if name not in values]:
            raise ArgumentError(f"{cls.__name__} lacks {', '.join(missing)}")
        made = {}
        for name, value in values.items():
            hint = hints_of(cls)[name]
            made[name] = hint.from_dict(value) if isinstance(hint, type) and issubclass(hint, Config) else plain(value)
        return cls(**made)


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
