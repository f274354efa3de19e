"""All that a run works with, put together once."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from wellposed.data import Batches, SequenceDataset
from wellposed.errors import ArgumentError
from wellposed.nn import SequenceModel
from wellposed.train._config import RunConfig
from wellposed.train._course import Course
from wellposed.train._evaluator import Evaluator
from wellposed.train._machine import share_of
from wellposed.train._objective import Objective
from wellposed.train._optimizer import Average, learning_groups, make_optimizer
from wellposed.train._recorded import GraphRecorder, Recorder
from wellposed.train._sources import ResidentSource, StreamedSource, has_few_lengths, is_resident
from wellposed.train._step import Tally, TrainingStep

if TYPE_CHECKING:
    from lightning_fabric import Fabric


@dataclass
class Session:
    """Model, optimiser, data and counters of a run on this machine."""

    config: RunConfig
    fabric: Fabric
    net: SequenceModel
    """The model itself ..."""
    model: nn.Module
    """... and as Fabric calls it."""
    optimizer: Any
    objective: Objective
    tally: Tally
    average: Average | None
    step: TrainingStep
    source: ResidentSource | StreamedSource
    evaluators: dict[str, Evaluator]
    shell: SequenceModel
    """A copy of the model on the CPU, for what is published."""
    course: Course = field(default_factory=Course)
    best: dict[str, Tensor] = field(default_factory=dict)
    """The weights of the best epoch, as they were evaluated."""

    @property
    def steps_an_epoch(self) -> int:
        """Batches of an epoch."""
        return len(self.source.order)

    @property
    def alone(self) -> bool:
        """Whether there is one process."""
        return self.fabric.world_size == 1

    @property
    def plain_optimizer(self) -> torch.optim.Optimizer:
        """Without Fabric around it."""
        return self.optimizer.optimizer

    def best_model(self) -> SequenceModel:
        """The model of the best epoch, on the CPU."""
        self.shell.load_state_dict(self.best)
        return self.shell


def make_session(
    config: RunConfig, fabric: Fabric, net: SequenceModel, datasets: dict[str, SequenceDataset]
) -> Session:
    """Put everything in its place; the model has its weights already."""
    shell = copy.deepcopy(net).requires_grad_(False)
    learning_groups(net, config.optimizer)
    called: Any = torch.compile(net) if config.compile else net
    model = fabric.setup_module(called)
    model.train()
    batches = _training_batches(config, fabric, datasets["train"])
    resident = is_resident(batches, fabric.device)
    recorder = recorder_for(fabric.device) if config.graph and resident else None
    optimizer = fabric.setup_optimizers(make_optimizer(net, config.optimizer, capturable=recorder is not None))
    assert not isinstance(optimizer, tuple)
    objective = Objective.of(datasets["train"].info, config.label_smoothing)
    tally = Tally(objective, fabric.device)
    average = None if config.ema is None else Average(net, config.ema)
    step = TrainingStep(fabric, model, optimizer, tally, clip=config.optimizer.clip, average=average)
    if resident:
        # Where padding is looked at, it must not depend on whether steps are recorded.
        recorded = recorder if not config.model.get("norm_padding") or has_few_lengths(batches) else None
        source: ResidentSource | StreamedSource = ResidentSource(batches, fabric.device, step, recorded)
    else:
        source = StreamedSource(batches, fabric.device, step)
    evaluators = {
        split: Evaluator(
            fabric,
            model,
            dataset,
            objective,
            batch_size=config.data.eval_batch_size or config.data.batch_size,
            multiple=config.data.multiple,
            recorder=recorder,
        )
        for split, dataset in datasets.items()
        if split != "train"
    }
    return Session(config, fabric, net, model, optimizer, objective, tally, average, step, source, evaluators, shell)


def recorder_for(device: torch.device) -> Recorder | None:
    """What records steps there; ``None`` where nothing does."""
    return GraphRecorder(device) if device.type == "cuda" else None


def _training_batches(config: RunConfig, fabric: Fabric, dataset: SequenceDataset) -> Batches:
    data = config.data
    share = share_of(data.batch_size, fabric.world_size)
    if data.drop_last and len(dataset) < data.batch_size:
        raise ArgumentError(
            f"data.batch_size = {data.batch_size}, but there are {len(dataset)} sequences to train on: take fewer, or "
            "data.drop_last = False"
        )
    return Batches(
        dataset,
        share,
        seed=config.seed,
        drop_last=data.drop_last,
        bucket=config.buckets and dataset.rows.ragged,
        multiple=data.multiple,
        device=fabric.device,
        rank=fabric.global_rank,
        world=fabric.world_size,
    )
