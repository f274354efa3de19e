"""What a search hands on: a perturbation, and where it came from."""

from __future__ import annotations

from typing import NamedTuple

from wellposed.linalg._eigen import Eigen

ROUNDING = 1 + 1e-12
"""Of a condition number of 1, which no computed one attains."""


class Found(NamedTuple):
    """A perturbation, the name of what found it, and whether that converged."""

    result: Eigen
    method: str
    converged: bool = True
