"""One step of training, and one of evaluation, that touch tensors at fixed places and read no value.

Whatever is counted is summed on the device; whoever wants to know reads ``Tally`` now and then.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float, Float32
from torch import Tensor, nn

from wellposed.data import Batch, PairBatch
from wellposed.train._objective import Objective
from wellposed.train._optimizer import Average, set_rates

if TYPE_CHECKING:
    from lightning_fabric import Fabric

_NEVER = -1.0


class Tally:
    """Sums over the sequences of an epoch, how many steps it has had, and the first of them that was not finite."""

    def __init__(self, objective: Objective, device: torch.device) -> None:
        self.objective = objective
        # One tensor, so that reading waits once; in double precision, where sums over an epoch are exact enough.
        exact = torch.float32 if device.type == "mps" else torch.float64
        self.values = torch.zeros(3 + len(objective.names), dtype=exact, device=device)
        self._steps, self._broken, self.sums = self.values[0], self.values[1], self.values[2:]
        self.clear()

    def clear(self) -> None:
        """Begin anew."""
        self.values.zero_()
        self._broken.fill_(_NEVER)

    def add(self, sums: Float[Tensor, " what"]) -> None:
        """A batch."""
        self.sums.add_(sums)
        self._steps.add_(1)

    def guard(self, *values: Float[Tensor, ""]) -> Float32[Tensor, ""]:
        """1 from the first step on at which one of these is not finite, else 0; to be asked before ``add``."""
        fine = torch.stack([value.detach().float() for value in values]).isfinite().all()
        self._broken.copy_(torch.where((self._broken >= 0) | fine, self._broken, self._steps))
        return (self._broken >= 0).float()

    def total(self, fabric: Fabric | None = None) -> Float[Tensor, " what"]:
        """What all processes have together."""
        if fabric is None or fabric.world_size == 1:
            return self.values
        sums: Any = fabric.all_reduce(self.sums.clone(), reduce_op="sum")
        broken: Any = fabric.all_reduce(self._broken.clone(), reduce_op="max")
        return torch.cat([self._steps[None], broken[None], sums])

    def read(self, fabric: Fabric | None = None) -> Reading:
        """All of it, after everything that was begun on the device."""
        steps, broken, *sums = self.total(fabric).tolist()
        return Reading(int(steps), int(broken) if broken >= 0 else None, tuple(sums))


@dataclass(frozen=True)
class Reading:
    """What a tally held."""

    steps: int
    broken: int | None
    """The first step, counted from 0, whose loss or gradient was not finite; no weight has changed since."""
    sums: tuple[float, ...]

    def since(self, earlier: Reading) -> tuple[float, ...]:
        """Sums of what came in between."""
        return tuple(now - then for now, then in zip(self.sums, earlier.sums, strict=True))


class TrainingStep:
    """Gradients of a batch, clipped; a step of the optimiser; the average of weights; and what is counted.

    A step whose loss or gradient is not finite leaves weights alone, and so do all after it: what led there can be
    looked at.
    """

    def __init__(
        self,
        fabric: Fabric,
        model: nn.Module,
        optimizer: Any,
        tally: Tally,
        *,
        clip: float | int | None,
        average: Average | None,
    ) -> None:
        self._fabric, self._model, self._optimizer, self._tally = fabric, model, optimizer, tally
        self._clip, self._average = clip, average
        self._plain = getattr(optimizer, "optimizer", optimizer)
        self._learning = [p for group in self._plain.param_groups for p in group["params"]]
        self._stop = torch.zeros((), device=tally.values.device)
        # What PyTorch's loss scaling sets: a fused optimiser passes over a step where it is 1, without being asked.
        self._can_skip = not any(_is_sharded(p) for p in self._learning)
        if self._can_skip:
            self._plain.found_inf = self._stop

    def __call__(self, batch: Batch | PairBatch, factor: Float32[Tensor, ""], weight: float = 1.0) -> None:
        """With rates at ``factor`` of the full ones; ``weight`` of this process's share of a batch among the others."""
        self._optimizer.zero_grad(set_to_none=True)
        out = batch.through(self._model)
        loss = self._tally.objective.loss(out, batch.y)
        self._fabric.backward(loss if weight == 1.0 else loss * weight)
        norm = self._clipped()
        self._stop.copy_(self._tally.guard(loss, norm))
        set_rates(self._plain, factor)
        self._optimizer.step()
        if self._average is not None:
            self._average.update()
        self._tally.add(self._tally.objective.sums(out, batch.y, loss))

    def _clipped(self) -> Float[Tensor, ""]:
        """The norm of all gradients, which are then no longer than ``clip``."""
        if self._clip is None:
            norm = nn.utils.get_total_norm([p.grad for p in self._learning if p.grad is not None])
        else:
            norm = self._fabric.clip_gradients(
                self._model, self._optimizer, max_norm=self._clip, error_if_nonfinite=False
            )
        assert norm is not None
        return norm.full_tensor() if _is_sharded(norm) else norm  # pyright: ignore[reportAttributeAccessIssue]


def evaluation_step(model: nn.Module, batch: Batch | PairBatch, tally: Tally) -> None:
    """Counts; the loss is the plain one, without label smoothing."""
    with torch.no_grad():
        tally.add(tally.objective.sums(batch.through(model), batch.y))


@contextmanager
def evaluating(model: nn.Module, average: Average | None = None) -> Iterator[None]:
    """In this context the model is in eval mode, with the average of its weights where there is one."""
    model.eval()
    if average is not None:
        average.swap()
    try:
        yield
    finally:
        if average is not None:
            average.swap()
        model.train()


def _is_sharded(tensor: Tensor) -> bool:
    """Whether it lies in parts on several processes."""
    return hasattr(tensor, "full_tensor")
