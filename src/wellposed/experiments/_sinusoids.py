"""A layer as it starts, with a read-out that is fitted: how far one gets without training it."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Float64
from torch import Tensor

from wellposed.data.tasks.sinusoids import DOMAINS, UNSEEN
from wellposed.nn import S4, S4D, S4PTD, SequenceLayer

DT, STEPS, CHANNELS, STATES = 0.005, 600, 32, 16
WAVES = 240
"""To fit on; a quarter of them to measure the error on."""
_RIDGE = 1e-4
_AT_ONCE = 50

Waves = tuple[Float64[Tensor, " wave"], Float64[Tensor, " wave"]]
"""Frequencies and amplitudes."""


def fresh_layer(kind: str, seed: int) -> SequenceLayer:
    """As the preset has it, in float64: every channel takes the sampling step for its own."""
    options = {"d_state": STATES, "dt_min": DT, "dt_max": DT, "scale": "s4", "seed": seed}
    if kind == "s4ptd":
        return S4PTD(CHANNELS, rel=0.1, **options).double().eval()
    return {"s4": S4, "s4d": S4D}[kind](CHANNELS, **options).double().eval()


def drawn(problem: str, seen: bool, count: int, stream: torch.Generator) -> Waves:
    """Waves of the frequencies that are shown in training, or of the others."""
    domain = (DOMAINS if seen else UNSEEN)[problem]
    at, A = torch.rand(2, count, generator=stream, dtype=torch.float64)
    at = at * sum(end - start for start, end in domain)
    s = torch.zeros_like(at)
    for start, end in domain:
        inside = (at >= 0) & (at < end - start)
        s = torch.where(inside, start + at, s)
        at = at - (end - start)
    return s, A


@torch.no_grad()
def features(layer: SequenceLayer, waves: Waves) -> Float64[Tensor, "wave channel"]:
    """What a block makes of a wave before its head: mean over time of the rectified channels."""
    s, A = waves
    t = DT * torch.arange(STEPS, dtype=torch.float64)
    # The layer is linear: each frequency goes through once, whatever the amplitudes.
    shared, which = s.unique(return_inverse=True)
    found = torch.empty(len(s), CHANNELS, dtype=torch.float64)
    for first in range(0, len(shared), _AT_ONCE):
        some = shared[first : first + _AT_ONCE]
        out = layer(torch.sin(some[:, None] * t)[..., None].expand(-1, -1, CHANNELS))
        mine = ((which >= first) & (which < first + _AT_ONCE)).nonzero()[:, 0]
        for part in mine.split(_AT_ONCE):
            found[part] = F.gelu(A[part, None, None] * out[which[part] - first]).mean(1)
    return found


class ReadOut:
    """An affine function of the features, fitted to the amplitude by least squares with a little damping."""

    def __init__(self, layer: SequenceLayer, waves: Waves) -> None:
        X = features(layer, waves)
        self._layer, self._mean, self._std = layer, X.mean(0), X.std(0)
        Z = self._scaled(X)
        damped = Z.mT @ Z + _RIDGE * len(Z) * torch.eye(Z.shape[1], dtype=torch.float64)
        self._weights = torch.linalg.solve(damped, Z.mT @ waves[1])

    def _scaled(self, X: Float64[Tensor, "wave channel"]) -> Float64[Tensor, "wave feature"]:
        return torch.cat([(X - self._mean) / self._std, torch.ones(len(X), 1, dtype=torch.float64)], 1)

    def __call__(self, waves: Waves) -> Float64[Tensor, " wave"]:
        """The amplitudes it tells."""
        return self._scaled(features(self._layer, waves)) @ self._weights

    def error(self, waves: Waves) -> float:
        """Mean square."""
        return (self(waves) - waves[1]).square().mean().item()
