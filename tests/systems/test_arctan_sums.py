from __future__ import annotations

from collections.abc import Callable

import mpmath
import pytest
import torch

from wellposed.systems._arctan_sums import sum_arctan_down, sum_arctan_slope, sum_arctan_up

OMEGA = [1e-6, 1e-3, 0.1, 1.0, 3.0, 11.9, 12.0, 13.0, 99.0, 1e3, 1e5, 1e8]


@pytest.mark.parametrize("m", [1, 2, 11, 12, 13, 14, 100, 3000])
@pytest.mark.parametrize(
    ("f", "term"),
    [
        (sum_arctan_up, lambda j, w: mpmath.atan(j / w)),
        (sum_arctan_down, lambda j, w: mpmath.atan(w / j)),
        (sum_arctan_slope, lambda j, w: j / (w**2 + j**2)),
    ],
    ids=["up", "down", "slope"],
)
def test_sums_are_exact_to_a_few_ulp(f: Callable, term: Callable, m: int):
    # Every term is positive and nothing cancels by more than a factor of a few, so a few ulp are what one can hope for.
    for omega in OMEGA:
        with mpmath.workdps(40):
            exact = mpmath.fsum(term(mpmath.mpf(j), mpmath.mpf(omega)) for j in range(1, m + 1))
        actual = f(torch.tensor([omega], dtype=torch.float64), m).item()
        assert abs(actual - float(exact)) <= 4e-15 * float(exact), omega
