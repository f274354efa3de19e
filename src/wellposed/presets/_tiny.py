"""Any preset made so small that it trains in seconds on a CPU: to try a program with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wellposed.presets._tasks import shape_of
from wellposed.train import DataConfig, RunConfig

_LENGTH = 64
_SIZE = 16
"""Channels, and states of a block."""
_BATCH = 16


def tiny(config: RunConfig) -> RunConfig:
    """The same run with everything small: two layers of 16 channels, 64 short sequences, two epochs.

    Waves are generated, fewer and shorter. All other data are of the task ``"toy"``: as many channels or tokens and
    classes, pairs where there are pairs, but nothing to fetch, and nothing to learn about the task itself.

    >>> from wellposed.presets import preset
    >>> config = tiny(preset("lra-text-s5ptd"))
    >>> config.data.task, config.data.options["vocabulary"], config.model["d_model"], config.name
    ('toy', 134, 16, 'tiny-lra-text-s5ptd')
    """
    schedule = config.schedule.replace(warmup_epochs=min(config.schedule.warmup_epochs, 0.5), warmup_steps=None)
    return config.replace(
        data=_data(config.data),
        model=_model(config.model),
        schedule=schedule.replace(steps=None),
        epochs=2,
        name=f"tiny-{config.name}" if config.name else "tiny",
        note="; ".join(filter(None, ("tiny: of no meaning", config.note))),
    )


def _data(data: DataConfig) -> DataConfig:
    if data.task == "sinusoids":
        fewer = {"count": 64, "steps": _LENGTH, "grid": (5, 5)}
        return data.replace(options={**data.options, **fewer}, batch_size=_BATCH)
    shape = shape_of(data.task, data.options)
    like: dict[str, Any] = {"length": _LENGTH, "classes": shape.outputs, "pairs": shape.pairs}
    like |= {"channels": shape.channels} if shape.vocabulary is None else {"vocabulary": shape.vocabulary}
    return DataConfig(task="toy", options=like, batch_size=_BATCH, multiple=_LENGTH // 2)


def _model(model: Mapping[str, Any]) -> dict[str, Any]:
    options = dict(model.get("layer_options", {}))
    if "blocks" in options:
        options |= {"blocks": 2, "d_state": 2 * _SIZE}
    elif "d_state" in options:
        options["d_state"] = min(options["d_state"], _SIZE)
    if (options.get("n_ssm") or 0) > 1:
        options["n_ssm"] = 2
    if "n_heads" in options:
        options["n_heads"] = 2
    return {**model, "d_model": _SIZE, "n_layers": 2, "layer_options": options}
