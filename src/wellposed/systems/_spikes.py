"""The spikes of |G_Diag - G_DPLR| on the imaginary axis, from the closed form by root finding.

Writing ``a = r exp(i theta)`` as in closed_forms, ``theta`` falls monotonically in omega and a spike sits near every
odd multiple of pi where ``r`` is close to 1. A grid even in ``theta`` therefore brackets every stationary point,
however narrow the spike: docs/devdocs/spikes.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, SupportsIndex

import torch
from jaxtyping import Float64
from torch import Tensor

from wellposed._checks import index_in, positive_int
from wellposed.systems._arctan_sums import sum_arctan_slope, sum_arctan_up
from wellposed.systems.closed_forms import G_difference, winding

_PER_TURN = 32  # grid points for every 2 pi of theta
_TABLE = 200_000
_NARROW = 1e-8  # width / frequency below which rounding of the frequency would show in a root

Vector = Float64[Tensor, " k"]


class Spike(NamedTuple):
    """One local maximum of |G_Diag - G_DPLR|."""

    frequency: float
    height: float
    width: float


@dataclass(frozen=True)
class Spikes:
    """The local maxima of |G_Diag - G_DPLR| at positive frequency, in ascending order.

    ``width`` is the full width at half power, between the two frequencies where the difference has fallen to
    ``height / sqrt(2)``: 1 for an isolated pole with real part -1/2. It is NaN where a neighbour begins before that.
    """

    n: int
    l: int
    frequency: Vector
    height: Vector
    width: Vector

    def __len__(self) -> int:
        return len(self.frequency)

    def __getitem__(self, index: int) -> Spike:
        return Spike(self.frequency[index].item(), self.height[index].item(), self.width[index].item())

    def __iter__(self) -> Iterator[Spike]:
        return (self[i] for i in range(len(self)))

    def __str__(self) -> str:
        rows = [f"{s.frequency:>16.6g} {s.height:>10.6f} {s.width:>10.4g}" for s in self]
        if len(rows) > 12:
            rows = [*rows[:3], f"{f'... {len(rows) - 9} more ...':>38}", *rows[-6:]]
        head = f"{len(self)} spikes of |G_Diag - G_DPLR| at n = {self.n}, l = {self.l}"
        return "\n".join([head, f"{'frequency':>16} {'height':>10} {'width':>10}", *rows])


def spikes(n: SupportsIndex, l: SupportsIndex = 1, last: SupportsIndex | None = None) -> Spikes:
    """Find where S4D departs most from S4: the local maxima of |G_Diag(i w) - G_DPLR(i w)| for ``w > 0``.

    ``last`` keeps only the ``last`` ones of highest frequency, which makes ``n = 10**6`` a matter of milliseconds.

    >>> found = spikes(32)
    >>> len(found), round(found[-1].frequency, 4), round(found[-1].height, 6)
    (14, 325.4263, 0.450517)
    """
    n = positive_int(n, "n")
    l = index_in(l, "l", n)
    total = _theta(torch.zeros(1, dtype=torch.float64), n).item()
    if last is None:
        return _find(n, l, total)
    last = positive_int(last, "last")
    turns = last + 2
    while len(found := _find(n, l, min(total, 2 * math.pi * turns))) < last and 2 * math.pi * turns < total:
        turns *= 2
    return Spikes(n, l, found.frequency[-last:], found.height[-last:], found.width[-last:])


def _find(n: int, l: int, theta_max: float) -> Spikes:
    def slope(omega: Vector) -> Vector:
        return _log_slope(omega, n, l)

    grid = _grid(n, theta_max)
    sign = torch.sign(slope(grid))
    top = ((sign[:-1] > 0) & (sign[1:] <= 0)).nonzero()[:, 0]
    bottom = ((sign[:-1] < 0) & (sign[1:] >= 0)).nonzero()[:, 0]
    peak = _bisect(slope, grid[top], grid[top + 1])
    trough = _bisect(slope, grid[bottom], grid[bottom + 1])
    height = G_difference(1j * peak, n, l=l).abs()
    edges = torch.cat([grid[:1], trough, grid[-1:]])
    k = torch.searchsorted(edges, peak)
    width = _half_power_width(n, l, peak, height, edges[k - 1], edges[k])
    keep = (k > 1) | (grid[0] < 1e-5)  # where the grid is cut short, the first peak may lack its left side
    return Spikes(n, l, peak[keep], height[keep], width[keep])


def _grid(n: int, theta_max: float) -> Vector:
    """Frequencies in ascending order, at least ``_PER_TURN`` for every turn of ``theta`` below ``theta_max``."""
    table = torch.logspace(-6, math.log10(n**2) + 4, _TABLE, dtype=torch.float64)
    theta = _theta(table, n)
    steps = torch.arange(1, math.ceil(theta_max / (2 * math.pi) * _PER_TURN), dtype=torch.float64)
    even = _interpolate(steps * (2 * math.pi / _PER_TURN), theta.flip(0), table.log().flip(0)).exp()
    coarse = table[:: _TABLE // 2000]
    return torch.cat([even, coarse[_theta(coarse, n) <= theta_max]]).unique()


def _interpolate(x: Vector, xp: Float64[Tensor, " table"], fp: Float64[Tensor, " table"]) -> Vector:
    i = torch.searchsorted(xp, x).clamp(1, len(xp) - 1)
    weight = (x - xp[i - 1]) / (xp[i] - xp[i - 1])
    return torch.lerp(fp[i - 1], fp[i], weight)


def _theta(omega: Vector, n: int) -> Vector:
    return torch.atan2(torch.full_like(omega, n), omega) + 2 * sum_arctan_up(omega, n - 1)


def _theta_slope(omega: Vector, n: int) -> Vector:
    """``-d theta / d omega``, positive."""
    return n / (omega**2 + n**2) + 2 * sum_arctan_slope(omega, n - 1)


def _log_slope(omega: Vector, n: int, l: int) -> Vector:
    """Half of ``|1 + a|^2 d/d omega log |G_Diag - G_DPLR|^2``: its sign changes are the stationary points."""
    w = winding(omega, n)
    cos_half, sin_half = w.half_turn.real, w.half_turn.imag
    log_r = n**2 / (omega * (omega**2 + n**2))
    log_q = sum(-omega / (omega**2 + j**2) for j in (l - 1, l)) + 1 / omega  # at l = 1 two terms cancel exactly
    denominator = w.one_plus_a.abs() ** 2
    turning = 2 * _theta_slope(omega, n) * cos_half * sin_half
    return (log_r + log_q) * denominator - w.r * (log_r * (2 * cos_half**2 - w.one_minus_r) + turning)


def _bisect(f: Callable[[Vector], Vector], lo: Vector, hi: Vector) -> Vector:
    """Roots of ``f`` in the brackets, to the last digit."""
    falling = f(lo) > 0
    for _ in range(60):
        mid = (lo + hi) / 2
        beyond = (f(mid) <= 0) == falling
        lo, hi = torch.where(beyond, lo, mid), torch.where(beyond, mid, hi)
    return (lo + hi) / 2


def _half_power_width(n: int, l: int, peak: Vector, height: Vector, lo: Vector, hi: Vector) -> Vector:
    def above(omega: Vector) -> Vector:
        return G_difference(1j * omega, n, l=l).abs() - height / 2**0.5

    reached = (above(lo) <= 0) & (above(hi) <= 0)
    width = torch.where(reached, _bisect(above, peak, hi) - _bisect(above, lo, peak), torch.nan)
    w = winding(peak, n)
    narrow = 2 * w.one_minus_r / (w.r.sqrt() * _theta_slope(peak, n))  # |1 + a|^2 is a parabola there
    return torch.where(narrow < _NARROW * peak, narrow, width)
