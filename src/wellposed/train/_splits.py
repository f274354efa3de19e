"""The sequences that a config names."""

from __future__ import annotations

import json
import os
from pathlib import Path

from wellposed import data as _data
from wellposed.data import SequenceDataset, store
from wellposed.errors import ArgumentError
from wellposed.train._config import DataConfig


def load_splits(config: DataConfig, data: str | os.PathLike[str] | None = None) -> dict[str, SequenceDataset]:
    """Every split of a task as it is kept, prepared first if it has to be."""
    folder = _data.prepare(config.task, data, **config.options)
    return {split: store.read(folder, split) for split in store.splits(folder)}


def load_split(config: DataConfig, data: str | os.PathLike[str] | None, split: str) -> SequenceDataset:
    """One split as a model of that config takes it."""
    root = None if data is None else Path(data)
    return normalized(config, _data.load(config.task, root, split, **config.options))


def normalized(config: DataConfig, dataset: SequenceDataset) -> SequenceDataset:
    """With the mean and the deviation that the config asks for; the same as often as it is called."""
    if config.normalize is None:
        return dataset
    mean, std = config.normalize
    if dataset.info.mean is None or dataset.info.channels is None:
        raise ArgumentError(
            f"data.normalize = {config.normalize} is for pixels, and {dataset.info.task} has none: leave it out"
        )
    channels = dataset.info.channels
    return dataset.scaled([mean] * channels, [std] * channels)


def data_key(config: DataConfig) -> str:
    """The same for configs of the same sequences, however they are scaled and put into batches."""
    return json.dumps([config.task, config.to_dict()["options"]], sort_keys=True)
