"""A config in words can be typed again, and says what a run will cost."""

from __future__ import annotations

import pytest

from wellposed.presets import PRESETS, describe, estimate, preset
from wellposed.train import DataConfig, RunConfig, with_overrides

COSTS = 4


@pytest.mark.parametrize("name", list(PRESETS)[::7])
def test_every_field_can_be_typed_again(name: str):
    config = preset(name)
    lines = describe(config)[:-COSTS]
    typed = dict(line.split(maxsplit=1) for line in lines)
    bare = RunConfig(data=DataConfig(task=config.data.task), model={"layer": config.model["layer"]}, note=config.note)
    assert with_overrides(bare, typed) == config


def test_costs_stand_at_the_end():
    config = preset("lra-text-s5ptd")
    words = [line[:35].strip() for line in describe(config)[-COSTS:]]
    assert words == ["parameters", "steps", "memory, about", "time on an H200, about"]
    own = config.replace(data=DataConfig(task="my-own"))
    assert describe(own)[-1].startswith(
        "cost                                cannot be told: unknown task of known shape"
    )


def test_estimates_grow_with_what_costs():
    config = preset("scifar-grey-s4ptd")
    base = estimate(config)

    def other(**overrides: object) -> tuple[float, float]:
        found = estimate(with_overrides(config, {name.replace("__", "."): value for name, value in overrides.items()}))
        return found.seconds / base.seconds, found.memory / base.memory

    assert other(epochs=100) == (pytest.approx(2), 1)
    assert other(model__n_layers=8)[0] == pytest.approx(2, rel=0.2)
    assert other(data__batch_size=128)[1] == pytest.approx(2, rel=0.05)
    assert all(share < 1 for share in other(precision="bf16"))
    assert base.steps == 50 * (45_000 // 64)


def test_batches_of_all_lengths_cost_their_padding():
    """ListOps has 1040 tokens on average and 2048 at most; batch norm wants all lengths in a batch."""
    mixed = preset("lra-listops-s5ptd")
    alike = with_overrides(mixed, {"data.bucket": True})
    assert estimate(alike).memory / estimate(mixed).memory == pytest.approx((1040 + 128) / 2048, abs=0.02)
