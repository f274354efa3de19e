"""A trained model on other data, with noise or without."""

from __future__ import annotations

import os
from contextlib import nullcontext
from typing import Any

import torch

from wellposed import data as _data
from wellposed.data import SequenceDataset
from wellposed.errors import ArgumentError
from wellposed.nn import FourierNoise, SequenceModel
from wellposed.train._config import Precision
from wellposed.train._machine import arithmetic, check_device
from wellposed.train._objective import Objective
from wellposed.train._result import RunResult, load_run
from wellposed.train._splits import load_split, normalized
from wellposed.train._step import Tally, evaluation_step


def evaluate(
    run: str | os.PathLike[str] | RunResult | SequenceModel,
    dataset: SequenceDataset | str = "test",
    *,
    noise: FourierNoise | None = None,
    batch_size: int = 64,
    data: str | os.PathLike[str] | None = None,
    device: Any = None,
    precision: Precision = "tf32",
) -> dict[str, float]:
    """Loss, and accuracy or the mean square of each target, of a run's model or of a model of yours.

    ``dataset`` is a data set, or the name of a split of the run's own task, found below ``data``. Pixels are scaled as
    the run's config says (``data.normalize``), for a model of yours as they come. The model is put back
    on its device and in its mode afterwards. Results do not depend on ``batch_size``, but for rounding.
    """
    if not isinstance(run, RunResult | SequenceModel):
        run = load_run(run)
    dataset = _split(run, dataset, data) if isinstance(dataset, str) else dataset
    if isinstance(run, RunResult):
        dataset = normalized(run.config.data, dataset)
    model = run.model() if isinstance(run, RunResult) else run
    first = next(model.parameters())
    here, training = first.device, model.training
    place = _best(here) if device in (None, "auto") else _device(device)
    tally = Tally(Objective.of(dataset.info), place)
    # Noise counts sequences as they come: in their own order, so that results do not depend on lengths.
    order: dict[str, Any] = {"shuffle": False, "bucket": dataset.rows.ragged and noise is None}
    batches = dataset.batches(batch_size, device=place, **order)
    half = torch.autocast(place.type, torch.bfloat16) if precision == "bf16" else nullcontext()
    model.to(place).eval()
    try:
        with arithmetic(precision), half, nullcontext() if noise is None else noise.on(model):
            for batch in batches:
                evaluation_step(model, batch, tally)
        tally.count = len(dataset)
        return tally.objective.metrics(tally.read().sums)
    finally:
        model.to(here).train(training)


def _device(device: Any) -> torch.device:
    kind = device.type if isinstance(device, torch.device) else str(device).partition(":")[0]
    check_device(kind)
    return torch.device("cuda" if kind == "gpu" else device)


def _best(here: torch.device) -> torch.device:
    """Where the model is, or a GPU if it is on the CPU and there is one."""
    return torch.device("cuda") if here.type == "cpu" and torch.cuda.is_available() else here


def _split(run: RunResult | SequenceModel, split: str, data: str | os.PathLike[str] | None) -> SequenceDataset:
    if isinstance(run, SequenceModel):
        raise ArgumentError(f"{split!r} is a split of a run's task; for a model give the data set itself")
    config = run.config.data
    if config.task not in _data.TASKS:
        raise ArgumentError(f"the run was made with data of its own, called {config.task!r}: give the data set itself")
    return load_split(config, data, split)
