"""A split gone through once: what the model makes of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import nn

from wellposed.data import Batches, SequenceDataset
from wellposed.train._objective import Objective
from wellposed.train._recorded import Recorder
from wellposed.train._sources import ResidentSource, is_resident
from wellposed.train._step import Tally, evaluation_step

if TYPE_CHECKING:
    from lightning_fabric import Fabric


class Evaluator:
    """Metrics of a model on a data set, in eval mode as whoever calls has set it; the same whatever the batch size."""

    def __init__(
        self,
        fabric: Fabric,
        model: nn.Module,
        dataset: SequenceDataset,
        objective: Objective,
        *,
        batch_size: int,
        multiple: int = 1,
        recorder: Recorder | None = None,
    ) -> None:
        self._fabric, self._model = fabric, model
        self._tally = Tally(objective, fabric.device)
        # Each process its share; no batch larger than all there is.
        size = max(min(batch_size, len(dataset)) // fabric.world_size, 1)
        self._batches = Batches(
            dataset,
            size,
            shuffle=False,
            bucket=dataset.rows.ragged,
            multiple=multiple,
            device=fabric.device,
            rank=fabric.global_rank,
            world=fabric.world_size,
        )
        self._source = None
        if is_resident(self._batches, fabric.device):
            self._source = ResidentSource(self._batches, fabric.device, self._count, recorder)

    def _count(self, batch: Any, *_: Any) -> None:
        evaluation_step(self._model, batch, self._tally)

    def __call__(self) -> dict[str, float]:
        """Once through."""
        self._tally.clear()
        self._batches.set_epoch(0)
        if self._source is None:
            for batch in self._batches:
                self._count(batch)
        else:
            for _ in self._source.steps():
                pass
        self._tally.count = self._batches.order.count
        return self._tally.objective.metrics(self._tally.read(self._fabric).sums)
