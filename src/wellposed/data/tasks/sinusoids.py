"""Sinusoids: waves whose frequency and amplitude are to be told, some frequencies kept back (section 3.4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from jaxtyping import Float

from wellposed._checks import positive_int
from wellposed.data._dataset import Info
from wellposed.data.store import Builder
from wellposed.data.tasks._task import Task
from wellposed.errors import ArgumentError

TOP = 100.0
"""The largest frequency."""
DOMAINS = {"interp": ((0.0, 40.0), (60.0, 100.0)), "extrap": ((0.0, 80.0),)}
"""Frequencies seen in training."""
UNSEEN = {"interp": ((40.0, 60.0),), "extrap": ((80.0, 100.0),)}


@dataclass(frozen=True)
class Sinusoids(Task):
    """Samples of A sin(s t), to be mapped to s and A: the paper's synthetic example of how S4D fails.

    Splits: ``train`` and ``val`` from the frequencies of the problem, ``test`` on a grid over [0, 100] x [0, 1], and
    ``seen`` and ``unseen``, drawn from the frequencies of the problem and from the others (its appendix).

    The paper prints "uniformly on [0, 10^4]", which cannot be meant as a time: its 10^4 samples would lie a unit of
    time apart, where a wave of frequency s is told from one of s - 2 pi by nothing. Here ``dt`` is the step of its
    other simulations, 10^-3, with which 10^4 samples show between 0 and 160 periods.
    """

    name: ClassVar[str] = "sinusoids"
    title: ClassVar[str] = "waves A sin(s t): tell s and A"
    licence: ClassVar[str] = "generated"

    problem: Literal["interp", "extrap"] = "interp"
    dt: float = 1e-3
    """Time between two samples; below pi / 100, so that every frequency is resolved."""
    steps: int = 10_000
    count: int = 1000
    """Waves to train on; a quarter of it in each of ``val``, ``seen`` and ``unseen``."""
    grid: tuple[int, int] = (51, 21)
    """Frequencies and amplitudes of the test grid."""
    seed: int = 0
    scaled: bool = False
    """Whether s is told as a share of the largest, so that an error of it weighs as much as one of A."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("steps", "count"):
            positive_int(getattr(self, name), name)
        if min(self.grid) < 2:
            raise ArgumentError(f"need a grid of 2 x 2 or more, got {self.grid}")
        if not 0 < self.dt < np.pi / TOP:
            range_ = "above 0 and below pi / 100 = 0.0314, to resolve frequencies up to 100"
            raise ArgumentError(f"dt must be {range_}, got {self.dt}")

    def build(self, out: Builder) -> Info:
        """All five splits, float32."""
        quarter = max(self.count // 4, 1)
        sizes = {"train": self.count, "val": quarter, "seen": quarter, "unseen": quarter}
        for place, (split, size) in enumerate(sizes.items()):
            rng = np.random.Generator(np.random.PCG64(np.random.SeedSequence(self.seed, spawn_key=(place,))))
            domain = (UNSEEN if split == "unseen" else DOMAINS)[self.problem]
            self._write(out, split, np.stack([_uniform(rng.random(size), domain), rng.random(size)], axis=1))
        s, A = np.meshgrid(np.linspace(0, TOP, self.grid[0]), np.linspace(0, 1, self.grid[1]), indexing="ij")
        self._write(out, "test", np.stack([s.ravel(), A.ravel()], axis=1))
        return Info("sinusoids", "generated", self.steps, channels=1, targets=("s", "A"))

    def _write(self, out: Builder, split: str, targets: Float[np.ndarray, "item 2"]) -> None:
        t = self.dt * np.arange(self.steps)
        s, A = targets.T[..., None]
        told = targets / (TOP, 1.0) if self.scaled else targets
        out.write(split, (A * np.sin(s * t)).astype(np.float32)[..., None], told)


def _uniform(share: Float[np.ndarray, " item"], domain: Sequence[tuple[float, float]]) -> Float[np.ndarray, " item"]:
    """Numbers of [0, 1) spread evenly over the intervals."""
    starts, ends = np.array(domain).T
    before = np.concatenate([[0.0], np.cumsum(ends - starts)])
    at = share * before[-1]
    interval = np.searchsorted(before, at, side="right") - 1
    return starts[interval] + at - before[interval]
