"""What noise does to a classifier: over amplitudes, over frequencies, over the epochs of its training."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from wellposed.data import SequenceDataset
from wellposed.experiments._predictions import predictions
from wellposed.nn import FourierNoise, SequenceModel, fourier_noise
from wellposed.systems import spikes

AMPLITUDE = 0.1
"""Of the paper's noise."""
AMPLITUDES = (0.01, 0.03, 0.1, 0.2, 0.3, 0.5, 1.0)
CYCLES = tuple(round(10**e, 5) for e in torch.linspace(math.log10(1e-3), math.log10(0.5), 24).tolist())
"""Of waves on the input, a step."""
_NEAR = (0.5, 1.0, 2.0, 4.0, 8.0)
"""Distances from the last spike: it is 1 wide."""


def frequencies(n: int, count: int = 40) -> list[float]:
    """From 1 to 1000 evenly in the logarithm, every spike of S4D of that size, and the last one from close by."""
    at = spikes(n).frequency.tolist()
    near = [max(at) + sign * distance for distance in _NEAR for sign in (-1, 1)]
    even = torch.logspace(0, 3, count, dtype=torch.float64).tolist()
    return sorted({float(f"{w:.5g}") for w in (*even, *at, *near)})


def last_spike(n: int) -> float:
    """Where S4D departs most from S4."""
    return float(f"{spikes(n, last=1)[0].frequency:.5g}")


@dataclass(frozen=True)
class Seen:
    """Accuracy of a model under noise, and by how much noise changes its scores."""

    accuracy: float
    change: float
    """Norm of the change relative to the scores."""


class UnderNoise:
    """A model on a data set; the clean scores are computed once."""

    def __init__(self, model: SequenceModel, dataset: SequenceDataset, *, device: str, count: int | None) -> None:
        self._of: Callable[[FourierNoise | None], Tensor] = lambda noise: predictions(
            model, dataset, noise=noise, device=device, count=count
        )
        self._clean = self._of(None)
        self._y = dataset.y[: len(self._clean)]

    @property
    def clean(self) -> float:
        """Accuracy without noise."""
        return self._accuracy(self._clean)

    def __call__(self, noise: FourierNoise) -> Seen:
        """Both numbers."""
        scores = self._of(noise)
        change = torch.linalg.vector_norm(scores - self._clean) / torch.linalg.vector_norm(self._clean)
        return Seen(self._accuracy(scores), change.item())

    def layer(self, amplitude: float = AMPLITUDE, frequency: float | None = None) -> Seen:
        """Noise on every layer; by default at the last spike."""
        return self(fourier_noise("layer", amplitude=amplitude, frequency=frequency))

    def input(self, amplitude: float = AMPLITUDE, cycles: float | None = None) -> Seen:
        """Noise on the data; by default at the last spike of a channel in the middle."""
        wave: dict[str, Any] = {} if cycles is None else {"frequency": 2 * math.pi * cycles, "dt": 1.0}
        return self(fourier_noise("input", amplitude=amplitude, **wave))

    def _accuracy(self, scores: Tensor) -> float:
        return (scores.argmax(-1) == self._y).double().mean().item()


def worst(spectrum: dict[str, Sequence[float]]) -> tuple[float, float]:
    """The lowest accuracy of a sweep, and at which frequency."""
    low = min(spectrum["accuracy"])
    return low, spectrum["frequency"][list(spectrum["accuracy"]).index(low)]
