"""What a model is to do: tell a class or numbers; its loss, and what is counted beside the loss."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch.nn.functional as F
from jaxtyping import Float, Shaped
from torch import Tensor

from wellposed.data import Info, SequenceDataset
from wellposed.errors import ArgumentError
from wellposed.nn import ModelConfig, PairClassifier, SequenceClassifier, SequenceModel, SequenceRegressor


@dataclass(frozen=True)
class Objective:
    """Classes by cross-entropy, numbers by the mean of squares."""

    classes: int
    """None for numbers."""
    targets: tuple[str, ...] = ()
    label_smoothing: float = 0.0

    @classmethod
    def of(cls, info: Info, label_smoothing: float | int = 0.0) -> Objective:
        """What the data ask for."""
        if label_smoothing and not info.classes:
            raise ArgumentError(
                f"label_smoothing = {label_smoothing} is for classes; these data are numbers: leave it out"
            )
        return cls(len(info.classes), () if info.classes else info.targets, float(label_smoothing))

    @property
    def names(self) -> list[str]:
        """What is measured, the loss first."""
        return ["loss", "accuracy"] if self.classes else ["loss", *(f"mse_{target}" for target in self.targets)]

    def loss(self, out: Float[Tensor, "batch out"], y: Shaped[Tensor, "batch *target"]) -> Float[Tensor, ""]:
        """What is learnt from: the mean over a batch."""
        if self.classes:
            return F.cross_entropy(out, y, label_smoothing=self.label_smoothing)
        return F.mse_loss(out, y)

    def add(
        self,
        sums: Float[Tensor, " what"],
        out: Float[Tensor, "batch out"],
        y: Shaped[Tensor, "batch *target"],
        loss: Float[Tensor, ""] | None = None,
    ) -> None:
        """Add all that is measured of a batch to its sums, in few kernels; the plain loss unless one is given."""
        out = out.detach()
        if loss is None:
            loss = F.cross_entropy(out, y) if self.classes else F.mse_loss(out, y)
        sums[0].add_(loss.detach(), alpha=len(y))
        if self.classes:
            sums[1].add_((out.argmax(-1) == y).sum())
        else:
            sums[1:].add_((out - y).square_().sum(0))

    def metrics(self, sums: Sequence[float]) -> dict[str, float]:
        """Means from sums; empty where nothing was counted."""
        count, *rest = sums[: 1 + len(self.names)]
        return {name: total / count for name, total in zip(self.names, rest, strict=True)} if count else {}

    def score(self, metrics: dict[str, float]) -> float:
        """How good that is; more is better, and what is not a number is worst."""
        value = metrics["accuracy"] if self.classes else -metrics["loss"]
        return value if math.isfinite(value) else -sys.float_info.max


def make_model(dataset: SequenceDataset, fields: dict[str, Any], seed: int, device: Any = None) -> SequenceModel:
    """The model of these fields for these data; weights are drawn from ``seed`` unless the fields have one."""
    sizes: dict[str, Any] = {**dataset.sizes}
    pooling = fields.get("pooling", "mean")
    if pooling == "none":
        raise ArgumentError("model.pooling = 'none' answers at each step; these data have one answer for a sequence")
    if "padding_idx" in fields and "vocabulary" not in sizes:
        raise ArgumentError("model.padding_idx is for tokens, and these data are numbers: leave it out")
    config = ModelConfig(**{**sizes, "seed": seed, **fields})
    kind = SequenceClassifier if dataset.classes else SequenceRegressor
    return (PairClassifier if dataset.info.pairs else kind).from_config(config, device=device)
