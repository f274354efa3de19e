"""What a search hands back, and the clock it runs against."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from wellposed.linalg._eigen import Eigen

ROUNDING = 1 + 1e-12
"""Of a condition number of 1, which no computed one attains."""
_EVERY = 1.0  # seconds between two lines about progress, and before the first


class Found(NamedTuple):
    """A perturbation, the name of what found it, whether that converged, and where it started."""

    result: Eigen
    method: str
    converged: bool = True
    start: str = ""
    """In words, where ``method`` does not say it: "gaussian, seed 2"."""


@dataclass
class Clock:
    """How long a search may go on, and who hears of it meanwhile."""

    seconds: float = np.inf
    """When they are over a search returns the best it has; a first candidate is always finished."""
    progress: Callable[[str], None] | None = None
    begun: float = field(default_factory=time.monotonic)
    told: float = field(default_factory=time.monotonic)

    @property
    def over(self) -> bool:
        """Whether time is up."""
        return time.monotonic() - self.begun >= self.seconds

    def tell(self, what: str, best: Eigen | None = None) -> None:
        """Say what is being done, once a second at most."""
        now = time.monotonic()
        if self.progress is None or now - self.told < _EVERY:
            return
        self.told = now
        reached = "" if best is None else f", kappa(V) {best.balanced_condition:.4g}, max Re {best.abscissa:.3g}"
        self.progress(f"{now - self.begun:.0f} s: {what}{reached}")
