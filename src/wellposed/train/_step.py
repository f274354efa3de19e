"""One step of training, and one of evaluation, that touch tensors at fixed places and read no value.

Whatever is counted is summed on the device; whoever wants to know reads ``Tally`` now and then.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float, Float32
from torch import Tensor, nn

from wellposed.data import Batch, PairBatch
from wellposed.train._objective import Objective
from wellposed.train._optimizer import Average, Rates, is_sharded, own

if TYPE_CHECKING:
    from lightning_fabric import Fabric


class Tally:
    """Sums over the sequences of an epoch, on the device, and how many there were, which is known without asking it."""

    def __init__(self, objective: Objective, device: torch.device) -> None:
        self.objective = objective
        exact = torch.float32 if device.type == "mps" else torch.float64
        self.sums = torch.zeros(len(objective.names), dtype=exact, device=device)
        self.broken = torch.zeros((), device=device)
        """1 once a loss or a gradient was not finite, else 0."""
        self.count = 0

    def clear(self) -> None:
        """Begin anew."""
        self.sums.zero_()
        self.count = 0

    def read(self, fabric: Fabric | None = None) -> Reading:
        """What all processes have together, after everything that was begun on the device."""
        sums, broken = self.sums, self.broken
        if fabric is not None and fabric.world_size > 1:
            sums = _reduced(fabric, sums, "sum")
            broken = _reduced(fabric, broken, "max")
        return Reading((float(self.count), *sums.tolist()), bool(broken))

    def state(self, fabric: Fabric) -> Float[Tensor, " what"]:
        """The same as a tensor, for a checkpoint."""
        return torch.tensor(self.read(fabric).sums, dtype=torch.float64)

    def load(self, state: Float[Tensor, " what"], *, first: bool) -> None:
        """Put back what ``state`` gave; of several processes the ``first`` carries what all have summed."""
        self.count = int(state[0])
        self.sums.copy_(state[1:] if first else torch.zeros_like(state[1:]))


@dataclass(frozen=True)
class Reading:
    """What a tally held."""

    sums: tuple[float, ...]
    """Number of sequences, and the sums over them of all that is measured."""
    broken: bool

    def since(self, earlier: Sequence[float]) -> list[float]:
        """Sums of what came after an earlier reading."""
        return [now - then for now, then in zip(self.sums, earlier, strict=True)]


def _reduced(fabric: Fabric, tensor: Tensor, how: str) -> Tensor:
    found = fabric.all_reduce(tensor.clone(), reduce_op=how)
    assert isinstance(found, Tensor)
    return found


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
        self._rates = Rates(self._plain)
        self._learning = [p for group in self._plain.param_groups for p in group["params"]]
        self._one = torch.ones((), device=tally.sums.device)
        # What PyTorch's loss scaling sets: a fused optimiser passes over a step where it is 1, without being asked.
        if not any(is_sharded(p) for p in self._learning):
            self._plain.found_inf = tally.broken

    def __call__(self, batch: Batch | PairBatch, factor: Float32[Tensor, ""], weight: float = 1.0) -> None:
        """With rates at ``factor`` of the full ones; ``weight`` of this process's share of a batch among the others."""
        self._optimizer.zero_grad(set_to_none=True)
        out = batch.through(self._model)
        loss = self._tally.objective.loss(out, batch.y)
        self._fabric.backward(loss if weight == 1.0 else loss * weight)
        self._look_for_odd_numbers(loss)
        if self._clip is not None:
            self._fabric.clip_gradients(self._model, self._optimizer, max_norm=self._clip, error_if_nonfinite=False)
        self._rates.set(factor)
        self._optimizer.step()
        if self._average is not None:
            self._average.update()
        self._tally.objective.add(self._tally.sums, out, batch.y, loss)

    def _look_for_odd_numbers(self, loss: Tensor) -> None:
        """Set ``broken`` where a number is not finite; it stays set."""
        found = [own(p.grad) for p in self._learning if p.grad is not None]
        if self._fabric.world_size == 1:  # several processes have a loss each, but gradients in common, and must agree
            found.append(loss.detach())
        # Of loss scaling too: one kernel for all, which multiplies by 1 besides.
        check = torch._amp_foreach_non_finite_check_and_unscale_  # pyright: ignore[reportPrivateImportUsage]
        check([t for t in found if t.numel()], self._tally.broken, self._one)


def evaluation_step(model: nn.Module, batch: Batch | PairBatch, tally: Tally) -> None:
    """Counts; the loss is the plain one, without label smoothing."""
    with torch.no_grad():
        tally.objective.add(tally.sums, batch.through(model), batch.y)


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
