"""HiPPO-LegS straight from the paper's equations, in numpy and in mpmath: what the library is compared with."""

from __future__ import annotations

from typing import Any

import mpmath
import numpy as np


def legs_numpy(n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """``A_H``, ``A_perp`` and ``B_H``, entry by entry (eq. HiPPO and eq. DPLR)."""
    j = np.arange(1, n + 1)
    outer = np.sqrt(2 * j[:, None] - 1) * np.sqrt(2 * j - 1)
    A = -np.where(j[:, None] > j, outer, 0) - np.diag(j)
    A_perp = -0.5 * np.where(j[:, None] == j, 1, np.where(j[:, None] < j, -outer, outer))
    return A, A_perp, np.sqrt((2 * j - 1) / 2)


def lemma1_numpy(s: np.ndarray, n: int, l: int) -> np.ndarray:
    """The right-hand side of Lemma 1 as printed, for s on the imaginary axis."""
    a = s * (-1) ** (n - 1) / (n + s)
    for j in range(1, n):
        a = a * (j - s) / (j + s)
    return -a * q_numpy(s, l) / (1 + a)


def q_numpy(s: np.ndarray, l: int) -> np.ndarray:
    """``sqrt((2l-1)/2) prod_{j=0}^{l-2} (s-j) / prod_{j=1}^l (s+j)``."""
    q = np.sqrt((2 * l - 1) / 2) / (s + l)
    for j in range(1, l):
        q = q * (s - (j - 1)) / (s + j)
    return q


class Lemma1:
    """``G_DPLR``, ``G_Diag - G_DPLR`` and ``G_Diag`` at one point, by the products of Lemma 1 in 50 digits and more."""

    def __init__(self, s: Any, n: int) -> None:
        with mpmath.workdps(60):
            self.s, self.n = mpmath.mpc(s), n
            above, below = self.s, self.s + n
            for j in range(1, n):
                above, below = above * (self.s - j), below * (self.s + j)
            self.above, self.below = above, below  # a = above / below

    def q(self, l: int) -> Any:
        with mpmath.workdps(60):
            above, below = mpmath.sqrt(mpmath.mpf(2 * l - 1) / 2), self.s + l
            for j in range(1, l):
                above, below = above * (self.s - (j - 1)), below * (self.s + j)
            return above / below

    def difference(self, l: int) -> Any:
        with mpmath.workdps(60):
            return -self.q(l) * self.above / (self.above + self.below)

    def diagonal(self, l: int) -> Any:
        with mpmath.workdps(60):
            return self.q(l) * self.below / (self.above + self.below)


def relative_error(actual: complex, expected: Any) -> float:
    with mpmath.workdps(60):
        return float(abs(mpmath.mpc(actual) - expected) / abs(expected))
