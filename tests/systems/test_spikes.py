from __future__ import annotations

import math
from typing import Any

import mpmath
import numpy as np
import pytest
import torch

from covering import covering
from legs_reference import Lemma1, lemma1_numpy
from wellposed.systems import spikes


def test_thirty_two_states():
    found = spikes(32)
    assert len(found) == 14
    assert round(found[-1].frequency, 4) == 325.4263
    assert round(found[-1].height, 6) == 0.450517
    assert [s.frequency for s in found] == sorted(s.frequency for s in found)
    assert "14 spikes" in str(found)
    assert "325.426" in str(found)


@pytest.mark.parametrize(
    ("n", "l"),
    [case for case in covering([1, 2, 3, 5, 16, 31, 32], [1, 2, 5], every=2) if case.values[1] <= case.values[0]],
)
def test_no_spike_is_missed_or_made_up(n: int, l: int):
    # Every spike is at least 1 wide, the grid is finer than 2e-4 relative: it cannot step over one.
    omega = np.logspace(-4, math.log10(n**2) + 3, 200_001)
    size = np.abs(lemma1_numpy(1j * omega, n, l))
    top = np.flatnonzero((size[1:-1] > size[:-2]) & (size[1:-1] >= size[2:])) + 1
    bottom = np.flatnonzero((size[1:-1] < size[:-2]) & (size[1:-1] <= size[2:])) + 1
    found = spikes(n, l)
    assert len(found) == len(top)
    edges = np.concatenate([[0], bottom, [len(omega) - 1]])
    for spike, k in zip(found, top, strict=True):
        assert spike.frequency == pytest.approx(omega[k], rel=2e-4)
        assert size[k] * (1 - 1e-12) <= spike.height == pytest.approx(size[k], rel=1e-4)
        lo, hi = edges[np.searchsorted(edges, k) - 1], edges[np.searchsorted(edges, k)]
        above = np.flatnonzero(size[lo : hi + 1] > size[k] / 2**0.5) + lo
        isolated = size[lo] < size[k] / 2**0.5 and size[hi] < size[k] / 2**0.5
        width = omega[above[-1]] - omega[above[0]] if isolated else math.nan
        # Two ends, each off by at most a step of the grid.
        assert spike.width == pytest.approx(width, abs=4e-4 * omega[k], nan_ok=True)


def test_crowded_spikes_are_all_found():
    # At n = 1000 the spikes between 200 and 400 lie less than one percent apart.
    omega = np.arange(200, 400, 0.01)
    size = np.abs(lemma1_numpy(1j * omega, 1000, 1))
    top = np.flatnonzero((size[1:-1] > size[:-2]) & (size[1:-1] >= size[2:])) + 1
    found = spikes(1000).frequency.numpy()
    found = found[(found > omega[0]) & (found < omega[-1])]
    assert len(top) > 50
    assert found == pytest.approx(omega[top], abs=0.01)


@pytest.mark.slow
@pytest.mark.parametrize("last", [1, 3, 20, 1000])
def test_the_last_ones(last: int):
    some, every = spikes(200, 3, last=last), spikes(200, 3)
    assert len(some) == min(last, len(every))
    for name in ("frequency", "height", "width"):
        tail = getattr(every, name)[-last:]
        assert torch.allclose(getattr(some, name), tail, rtol=1e-12, atol=0, equal_nan=True)


def test_a_thousand_states():
    # Heights, and both ends of the widths, from the products of Lemma 1 in 60 digits.
    for spike in spikes(1000, last=3):

        def size(omega: Any) -> Any:
            return abs(Lemma1(mpmath.mpc(0, omega), 1000).difference(1))

        height = size(mpmath.mpf(spike.frequency))
        assert float(height) == pytest.approx(spike.height, rel=1e-8)
        ends = [
            mpmath.findroot(lambda w, h=height: size(w) - h / mpmath.sqrt(2), (x, x + 0.01), solver="secant", tol=1e-8)
            for x in (spike.frequency - 0.5, spike.frequency + 0.5)
        ]
        assert spike.width == pytest.approx(float(ends[1] - ends[0]), rel=1e-5)
        # Full width at half power of a pole with real part -1/2.
        assert spike.width == pytest.approx(1, abs=1e-4)
        for side in (-1e-2, 1e-2):
            assert size(mpmath.mpf(spike.frequency + side)) < height


def test_a_million_states():
    n = 10**6
    found = spikes(n, last=3)
    # theta = sum of arctan(j / omega) is about n^2 / omega: the last odd multiples of pi are at n^2 / ((2k + 1) pi).
    assert found.frequency.tolist() == pytest.approx([n**2 / (k * math.pi) for k in (5, 3, 1)], rel=1e-6)
    # |G_Diag| there is close to q / (1 - r) with q = 1 / (sqrt(2) omega) and 1 - r = (n / omega)^2 / 2.
    assert found.height.tolist() == pytest.approx([2**0.5 / (k * math.pi) for k in (5, 3, 1)], rel=1e-6)
    assert found.width.tolist() == pytest.approx([1, 1, 1], rel=1e-6)
