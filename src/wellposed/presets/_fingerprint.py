"""A short text that tells configs apart, for records: presets may change after one is made."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from wellposed.errors import UnknownNameError
from wellposed.presets._describe import fields_of
from wellposed.presets._table import preset
from wellposed.train import DataConfig, RunConfig
from wellposed.train._folder import FREE, start_name

ASIDE = (*FREE, "seed")
"""Fields that a run has of itself, whatever its preset."""
BEFORE = "as the preset was before"
"""What records and tables say of a run whose preset has changed since."""


def fingerprint(config: RunConfig) -> str:
    """The same for runs that learn the same but for their seed: presets may change after a record is made.

    Of what a config says beyond the defaults: a field that is new to the library leaves older runs what they were.
    """
    usual = own_fields(RunConfig(data=DataConfig(task=config.data.task)))
    own = own_fields(config).items()
    fields = sorted((name, value) for name, value in own if usual.get(name) != value or name == "data.task")
    return hashlib.sha256(json.dumps(fields).encode()).hexdigest()[:12]


def own_fields(config: RunConfig) -> dict[str, str]:
    """All but what a run has of itself; of the run that it started from the name, wherever that lies."""
    fields = {name: value for name, value in fields_of(config) if name not in ASIDE}
    return fields if config.start is None else fields | {"start": start_name(config.start)}


def preset_fingerprint(name: str) -> str | None:
    """Of a preset as it is now; none where a run is named otherwise."""
    try:
        return fingerprint(preset(name))
    except UnknownNameError:
        return None


def changes(line: Mapping[str, Any]) -> str:
    """What a record's line on a run says was changed of its preset, and that this is another one now, if it is."""
    then = line.get("preset_config")
    same = then in (None, preset_fingerprint(line["preset"])) or BEFORE in line["changed"]
    return line["changed"] if same else ", ".join(filter(None, (line["changed"], BEFORE)))
