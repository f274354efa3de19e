"""Single fields of a config by their names with dots, as a command line gives them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from wellposed import data as _data
from wellposed.errors import ArgumentError, UnknownNameError
from wellposed.train._config import RunConfig
from wellposed.train._config_base import Config
from wellposed.train._model_fields import layer_fields, model_fields
from wellposed.train._values import checked, hints_of, parsed


def with_overrides(config: RunConfig, overrides: Mapping[str, Any]) -> RunConfig:
    """The config with other values; texts are read as the field's type wants them, names that are wrong refused.

    >>> from wellposed.train import DataConfig
    >>> config = RunConfig(data=DataConfig(task="sinusoids"))
    >>> with_overrides(config, {"optimizer.lr": "0.003", "model.layer_options.d_state": 32}).optimizer.lr
    0.003
    >>> with_overrides(config, {"optimizer.beta": (0.9, 0.99)})
    Traceback (most recent call last):
    wellposed.errors.UnknownNameError: unknown field of optimizer 'beta'; did you mean 'betas'?
    """
    parts: dict[str, dict[str, Any]] = {"": {}, "model": {}, "model.layer_options": {}, "data.options": {}}
    layer = str(overrides.get("model.layer", config.model.get("layer", "s4ptd")))
    task = str(overrides.get("data.task", config.data.task))
    _check_left(config, layer)
    for name, value in overrides.items():
        where, last, hint = _find(name, layer, task)
        parts.setdefault(where, {})[last] = (parsed if isinstance(value, str) else checked)(value, hint, name)
    if options := parts.pop("model.layer_options"):
        parts["model"]["layer_options"] = {**config.model.get("layer_options", {}), **options}
    if options := parts.pop("data.options"):
        parts.setdefault("data", {})["options"] = {**config.data.options, **options}
    own, model = parts.pop(""), parts.pop("model")
    if model:
        own["model"] = {**config.model, **model}
    return replace(config, **own, **{name: replace(getattr(config, name), **some) for name, some in parts.items()})


def _check_left(config: RunConfig, layer: str) -> None:
    """Options of a config's own layer mean nothing to another one."""
    own, known = str(config.model.get("layer", "s4ptd")), layer_fields(layer)
    left = [name for name in config.model.get("layer_options", {}) if known is not None and name not in known]
    if layer != own and left:
        raise ArgumentError(
            f"model.layer = {layer!r} has no {', '.join(left)}, which this config sets for {own!r}: begin with a "
            f"preset of {layer}, or with a config of your own"
        )


def override_names(config: RunConfig) -> list[str]:
    """Every name that ``with_overrides`` takes for this config."""
    names = []
    for name, hint in hints_of(RunConfig).items():
        if isinstance(hint, type) and issubclass(hint, Config):
            names += [f"{name}.{inner}" for inner in hints_of(hint) if inner != "options"]
        elif name != "model":
            names.append(name)
    names += [f"model.{name}" for name in model_fields() if name != "layer_options"]
    names += [f"model.layer_options.{name}" for name in layer_fields(config.model.get("layer", "s4ptd")) or ()]
    return names + [f"data.options.{name}" for name in _task_fields(config.data.task) or ()]


def _find(name: str, layer: str, task: str) -> tuple[str, str, Any]:
    """Where a name belongs, what it is called there, and its type."""
    first, *rest = name.split(".")
    top = hints_of(RunConfig)
    if first not in top:
        raise UnknownNameError("field", first, top)
    if not rest:
        if first == "model" or issubclass(_class(top[first]), Config):
            raise ArgumentError(f"{first} has parts: name one of them, as in {first}.{next(iter(_parts(first)))}")
        return "", first, top[first]
    known = _parts(first)
    if rest[0] not in known:
        raise UnknownNameError(f"field of {first}", rest[0], known) if known else ArgumentError(f"{first} has no parts")
    if len(rest) == 1:
        return first, rest[0], known[rest[0]]
    where = f"{first}.{rest[0]}"
    if where not in ("model.layer_options", "data.options") or len(rest) > 2:
        raise ArgumentError(f"{name}: {where} has no parts")
    options = layer_fields(layer) if first == "model" else _task_fields(task)
    if options is None:
        return where, rest[1], Any
    if rest[1] not in options:
        raise UnknownNameError(f"option of {layer if first == 'model' else task}", rest[1], options)
    return where, rest[1], options[rest[1]]


def _parts(field: str) -> dict[str, Any]:
    if field == "model":
        return model_fields()
    hint = _class(hints_of(RunConfig)[field])
    return hints_of(hint) if issubclass(hint, Config) else {}


def _class(hint: Any) -> type:
    return hint if isinstance(hint, type) else object


def _task_fields(task: str) -> dict[str, Any] | None:
    return hints_of(_data.TASKS[task]) if task in _data.TASKS else None
