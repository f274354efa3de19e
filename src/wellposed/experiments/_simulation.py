"""The simulation of appendix F: bilinear rule, dt = 1e-3, C = e_1, D = 0, the appendix's delayed recurrence."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from wellposed.systems import s4, s4d

DT = 1e-3
STEPS = 10_000


def outputs(n: int, u: Tensor) -> tuple[Tensor, Tensor]:
    """What S4 and S4D of size ``n`` make of the samples ``u``."""
    dplr = s4(n, form="dense").discretize(DT, "bilinear")
    diag = s4d(n).discretize(DT, "bilinear")
    return dplr.simulate(u, convention="delayed"), diag.simulate(u, convention="delayed")


def difference(n: int, u: Tensor) -> float:
    """The paper's simulation error: the l2 norm of the difference of the two outputs."""
    dplr, diag = outputs(n, u)
    return torch.linalg.vector_norm(dplr - diag).item()


def slope(n: list[int], error: list[float], start: int) -> float:
    """Least-squares slope of log error against log n over the sizes from ``start`` on."""
    points = [(math.log(x), math.log(y)) for x, y in zip(n, error, strict=True) if x >= start]
    mean_x, mean_y = (sum(column) / len(points) for column in zip(*points, strict=True))
    return sum((x - mean_x) * (y - mean_y) for x, y in points) / sum((x - mean_x) ** 2 for x, _ in points)
