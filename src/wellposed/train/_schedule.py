"""Learning rates over the steps, as a factor of the full rate: a pure function, and what plateau remembers."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float32

from wellposed.train._config import ScheduleConfig


def warmup_steps(config: ScheduleConfig, steps_an_epoch: int) -> int:
    """Steps before the full rate is reached."""
    return round(config.warmup_epochs * steps_an_epoch) if config.warmup_steps is None else config.warmup_steps


def factor(step: int, config: ScheduleConfig, steps_total: int, warmup: int) -> float:
    """The share of the full rate at step 0, 1, ... of a run of ``steps_total``.

    Warm-up goes from ``1 / warmup`` at the first step to 1 at its last. From there the cosine goes to ``floor``, which
    the last step has. ``"rsqrt"`` falls as ``sqrt(warmup / step)``, counted from 1.

    >>> [round(factor(step, ScheduleConfig(), 5, 2), 3) for step in range(5)]
    [0.5, 1.0, 0.75, 0.25, 0.0]
    """
    if step < warmup:
        return (step + 1) / warmup
    if config.name == "rsqrt":
        return math.sqrt(max(warmup, 1) / (step + 1))
    if config.name != "cosine":
        return 1.0
    first, last = max(warmup - 1, 0), (steps_total if config.steps is None else config.steps) - 1
    if step >= last:
        # A run of one step has no way down: it is taken at the full rate rather than at the floor.
        return config.floor if last > 0 else 1.0
    return config.floor + (1 - config.floor) * (1 + math.cos(math.pi * (step - first) / (last - first))) / 2


def factors(first: int, count: int, config: ScheduleConfig, steps_total: int, warmup: int) -> Float32[np.ndarray, " _"]:
    """The same for ``count`` steps from ``first`` on."""
    found = [factor(step, config, steps_total, warmup) for step in range(first, first + count)]
    return np.array(found, dtype=np.float32)


@dataclass(frozen=True)
class Plateau:
    """How far rates have come down because validation stalled."""

    scale: float = 1.0
    best: float | None = None
    stalled: int = 0
    """Evaluations since the best."""

    def after(self, score: float, config: ScheduleConfig) -> Plateau:
        """The next one, after an evaluation; a higher score is better."""
        if self.best is None or score > self.best:
            return Plateau(self.scale, score, 0)
        if self.stalled < config.patience:
            return Plateau(self.scale, self.best, self.stalled + 1)
        return Plateau(self.scale * config.factor, self.best, 0)
