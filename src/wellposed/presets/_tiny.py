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
_OPTIONS = {"n_heads": 2, "d_attention": _SIZE // 2, "packed": 8, "block": 4, "length": _LENGTH, "hidden": 8}
_OPTIONS |= {"omega_0": 10.0, "mask_width": 0.5}
"""Of layers, where they have them; a kernel that suits a thousand steps is noise on 64."""
_FIELDS = {"d_ffn": 2 * _SIZE, "d_head": _SIZE, "max_length": _LENGTH}
"""Of models, likewise."""


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
    options |= {name: small for name, small in _OPTIONS.items() if options.get(name) is not None}
    fields = {name: small for name, small in _FIELDS.items() if model.get(name) is not None}
    return {**model, **fields, "d_model": _SIZE, "n_layers": 2, "layer_options": options}
