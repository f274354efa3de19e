"""How many runs of a sweep are done at once, and how long each takes compared with the others."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

import torch

from wellposed.data import SequenceDataset
from wellposed.errors import WellposedError
from wellposed.train._config import RunConfig
from wellposed.train._memory import model_size, training_bytes
from wellposed.train._objective import make_model

_MOST_ON_A_GPU = 8
"""Processes that share a card unless told otherwise. They take turns there; where more stop helping is not measured."""
_PROCESS = {"cuda": 1.0 * 2**30, "cpu": 0.5 * 2**30}
"""Bytes of a process that has computed nothing: PyTorch on a CPU, a context and compiled kernels on a card."""
_SPARE = 1.5
"""Times the estimate of a training step: gaps of the allocator, warm-ups beside recordings."""
_SHARE = 0.9
"""Of the free memory."""

Splits = Mapping[str, SequenceDataset]


def cores() -> int:
    """Those that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def default_at_once(runs: Iterable[tuple[RunConfig, Splits]], kind: str) -> int:
    """As many as fit into memory and have a core each; ``kind`` is ``"cuda"`` or ``"cpu"``."""
    runs = list(runs)
    config, splits = max(runs, key=lambda run: _elements(*run))
    most = min(len(runs), cores(), _MOST_ON_A_GPU if kind == "cuda" else len(runs))
    free = float(torch.cuda.mem_get_info()[0]) if kind == "cuda" else free_memory()
    return int(max(1, min(most, _SHARE * free // process_bytes(config, splits, kind))))


def process_bytes(config: RunConfig, splits: Splits, kind: str) -> float:
    """Memory of a process that trains this, roughly; data lie on a card for each, and on a CPU once for all."""
    try:
        parameters = sum(p.numel() for p in make_model(splits["train"], dict(config.model), 0).parameters())
    except WellposedError:
        parameters = 0  # its run will say what is wrong, and leave the others alone
    data = sum(split.nbytes for split in splits.values()) if kind == "cuda" else 0
    return _PROCESS[kind] + data + _SPARE * training_bytes(config, parameters, _elements(config, splits))


def work(config: RunConfig, splits: Splits) -> float:
    """What a run costs, in a unit of its own: only fit to compare runs."""
    lengths = splits["train"].lengths
    return config.epochs * float(lengths.sum()) * model_size(config.model, "n_layers") * _width(config)


def _elements(config: RunConfig, splits: Splits) -> float:
    train = splits["train"]
    sequences = config.data.batch_size * (2 if train.info.pairs else 1)
    return float(sequences * int(train.lengths.max()) * model_size(config.model, "n_layers") * _width(config))


def _width(config: RunConfig) -> int:
    return model_size(config.model, "d_model")


def free_memory() -> float:
    """Bytes that processes may still take; infinite where the system does not say."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        free = next(1024.0 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable"))
    except (OSError, StopIteration, ValueError):
        return float("inf")
    return min(free, _container_limit())


def _container_limit() -> float:
    """What a container may take in all."""
    try:
        return float(Path("/sys/fs/cgroup/memory.max").read_text(encoding="ascii"))
    except (OSError, ValueError):  # none, or no limit: "max"
        return float("inf")
