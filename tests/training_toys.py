"""Tiny data and configs, with which a whole run takes a fraction of a second."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from wellposed.data import Info, SequenceDataset, Vocabulary
from wellposed.data._rows import FixedRows, RaggedRows
from wellposed.train import DataConfig, RunConfig
from wellposed.train._logs import Row, read_rows

MODEL = {"layer": "s4d", "d_model": 4, "n_layers": 1, "layer_options": {"d_state": 4}, "dropout": 0.2}


def waves(count: int = 24, seed: int = 0, length: int = 20) -> SequenceDataset:
    """Fast and slow waves of one length, to be told apart."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, count)
    t = np.arange(length)
    x = np.sin(np.where(y[:, None] == 1, 1.3, 0.2) * t + rng.uniform(0, 6, (count, 1))) + 0.1 * rng.normal(
        size=(count, length)
    )
    info = Info("waves", "generated", length, channels=1, classes=("slow", "fast"))
    return SequenceDataset(info, "any", FixedRows(torch.tensor(x, dtype=torch.float32)[..., None]), torch.tensor(y))


def slopes(count: int = 24, seed: int = 0) -> SequenceDataset:
    """Lines whose slope and offset are the targets."""
    rng = np.random.default_rng(seed)
    y = torch.tensor(rng.normal(size=(count, 2)), dtype=torch.float32)
    x = y[:, :1] * torch.linspace(0, 1, 16) + y[:, 1:]
    info = Info("slopes", "generated", 16, channels=1, targets=("slope", "offset"))
    return SequenceDataset(info, "any", FixedRows(x[..., None]), y)


def words(count: int = 24, seed: int = 0, pairs: bool = False) -> SequenceDataset:
    """Tokens of different lengths: is there a 5 in it? Or, of two, do both have one?"""
    rng = np.random.default_rng(seed)
    rows = [rng.integers(3, 8, rng.integers(3, 30)) for _ in range(count)]
    offsets = torch.tensor(np.cumsum([0, *map(len, rows)]))
    values = torch.tensor(np.concatenate(rows), dtype=torch.uint8)
    has = torch.tensor([int((row == 5).any()) for row in rows])
    vocabulary = Vocabulary(("<pad>", "<unk>", "<eos>", "a", "b", "c", "d", "e"))
    info = Info("words", "generated", 30, vocabulary=vocabulary, classes=("no", "yes"), pairs=pairs)
    if not pairs:
        return SequenceDataset(info, "any", RaggedRows(values, offsets), has)
    both = torch.tensor(rng.integers(0, count, (count, 2)))
    return SequenceDataset(info, "any", RaggedRows(values, offsets), has[both].all(1).long(), both)


def splits(make: Any = waves, **options: Any) -> dict[str, SequenceDataset]:
    """Three splits of a kind of data."""
    return {split: make(seed=seed, **options) for seed, split in enumerate(("train", "val", "test"))}


def config(**changes: Any) -> RunConfig:
    """Three steps an epoch, three epochs, everything random switched on."""
    data = DataConfig(task="toys", batch_size=8, eval_batch_size=64)
    return RunConfig(**{"data": data, "model": MODEL, "epochs": 3, "ema": 0.8} | changes)


def course(folder: Path) -> list[Row]:
    """The metrics of a run, without what depends on the clock."""
    return [{k: v for k, v in row.items() if "second" not in k} for row in read_rows(folder / "metrics.jsonl")]


def weights(folder: Path) -> bytes:
    """The published model, to the bit."""
    return (folder / "final" / "model.safetensors").read_bytes()
