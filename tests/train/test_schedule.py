"""Learning rates against their closed form, to the last step."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wellposed.train import ScheduleConfig
from wellposed.train._schedule import Plateau, factor, factors, warmup_steps


@given(warmup=st.integers(1, 50), rest=st.integers(1, 200), floor=st.floats(0, 1))
def test_cosine_with_warm_up(warmup, rest, floor):
    total, config = warmup + rest, ScheduleConfig(floor=floor)
    found = [factor(step, config, total, warmup) for step in range(total)]
    assert found[0] == 1 / warmup
    assert found[warmup - 1] == 1
    assert found[-1] == floor
    for step in range(warmup):
        assert found[step] == pytest.approx((step + 1) / warmup)
    for k in range(rest + 1):  # from the last step of the warm-up to the last of all
        expected = floor + (1 - floor) * math.cos(math.pi * k / rest / 2) ** 2
        assert found[warmup - 1 + k] == pytest.approx(expected, abs=1e-12)


def test_without_warm_up_the_first_step_is_full():
    found = [factor(step, ScheduleConfig(), 5, 0) for step in range(5)]
    assert found == pytest.approx([1, (2 + math.sqrt(2)) / 4, 0.5, (2 - math.sqrt(2)) / 4, 0], abs=1e-12)


def test_a_cosine_shorter_or_longer_than_the_run():
    short = ScheduleConfig(steps=4, floor=0.1)
    assert [factor(step, short, 8, 0) for step in range(3, 8)] == [0.1] * 5
    long = ScheduleConfig(steps=9)
    assert factor(4, long, 5, 0) == pytest.approx(0.5)


@pytest.mark.parametrize("total", [1, 2])
def test_tiny_runs_learn_something(total):
    assert factor(0, ScheduleConfig(), total, 0) == 1


def test_warm_up_in_epochs_or_steps():
    assert warmup_steps(ScheduleConfig(warmup_epochs=1.5), 10) == 15
    assert warmup_steps(ScheduleConfig(warmup_epochs=1.5, warmup_steps=7), 10) == 7


@pytest.mark.parametrize("name", ["plateau", "constant"])
def test_others_stay_after_the_warm_up(name):
    config = ScheduleConfig.from_dict({"name": name})
    assert [factor(step, config, 5, 2) for step in range(5)] == [0.5, 1, 1, 1, 1]
    assert factors(1, 3, config, 5, 2).tolist() == [1, 1, 1]


def test_plateau_lowers_rates_after_its_patience():
    config, state, scales = ScheduleConfig(name="plateau", factor=0.5, patience=2), Plateau(), []
    for score in [1, 2, 2, 1, 1, 3, 0, 0, 0, 0, 0, 0]:
        state = state.after(float(score), config)
        scales.append(state.scale)
    # The third evaluation in a row without a better one lowers the rate, and counting starts anew.
    assert scales == [1, 1, 1, 1, 0.5, 0.5, 0.5, 0.5, 0.25, 0.25, 0.25, 0.125]


def test_rsqrt_is_the_rule_of_transformers():
    """``lr min(1, t / w) / sqrt(max(t, w))`` of steps t counted from 1, with a peak at the end of the warm-up."""
    config = ScheduleConfig(name="rsqrt")
    for warmup in (1, 8, 1000):
        found = factors(0, 3000, config, 3000, warmup)
        t = np.arange(1, 3001)
        right = np.minimum(1, t / warmup) / np.sqrt(np.maximum(t, warmup)) * warmup**0.5
        np.testing.assert_allclose(found, right, rtol=1e-6)
