"""Where a run stands: all of a checkpoint that is no tensor."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from wellposed.errors import RecordError
from wellposed.train._config import EvaluationConfig
from wellposed.train._schedule import Plateau


@dataclass
class Course:
    """Counts and results so far; the loop changes it as it goes."""

    step: int = 0
    """Steps done, of all epochs."""
    epoch: int = 0
    """Epochs done."""
    best_epoch: int | None = None
    best_score: float | None = None
    best: dict[str, dict[str, float]] = field(default_factory=dict)
    """Metrics of the best epoch, by split."""
    stalled: int = 0
    """Evaluations since the best."""
    plateau: Plateau = field(default_factory=Plateau)
    logged: list[float] = field(default_factory=list)
    """Sums at the last row of the metrics, of which the next one is the difference."""
    seconds: float = 0.0
    """Of all slices together."""
    stopped: str = ""
    """Why there are no more epochs, where they have not all been done."""
    finished: bool = False
    test: dict[str, float] = field(default_factory=dict)
    """Of the best epoch, at the end."""

    def evaluated(self, score: float, metrics: dict[str, dict[str, float]], config: EvaluationConfig) -> bool:
        """Take an evaluation after the present epoch into account; whether it is the best so far."""
        better = self.best_score is None or score > self.best_score
        if score == self.best_score:  # few items know few accuracies: of equals the surer one
            now, before = (
                found.get("loss", math.inf) for found in (metrics[config.select_on], self.best[config.select_on])
            )
            better = now < before
        if better:
            self.best_epoch, self.best_score, self.stalled = self.epoch, score, 0
            self.best = {split: finite(found) for split, found in metrics.items()}
        else:
            self.stalled += 1
            if config.patience is not None and self.stalled >= config.patience:
                self.stopped = f"no better result in {self.stalled} evaluations"
        return better

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Course:
        """What ``to_dict`` was called on."""
        known = {own.name for own in fields(cls)}
        if not isinstance(values, dict) or not known.issuperset(values):
            raise RecordError("this checkpoint is from another version of the library")
        return cls(**{**values, "plateau": Plateau(**values["plateau"])})


def finite(metrics: dict[str, float]) -> dict[str, float]:
    """Those that JSON can hold."""
    return {name: value for name, value in metrics.items() if math.isfinite(value)}
