"""Pixels with another mean and deviation than their task has, in a run and wherever it is measured."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from wellposed.data import load
from wellposed.errors import ArgumentError
from wellposed.train import DataConfig, RunConfig, evaluate, run
from wellposed.train._splits import load_split

OPTIONS = {"count": 100, "source": "generated"}
PIXELS = DataConfig(task="pathfinder", options=OPTIONS, normalize=(0.5, 0.5), batch_size=16)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("data")


def test_numbers_are_those_asked_for(data: Path):
    plain = load("pathfinder", data, "test", **OPTIONS)[3][0]
    torch.testing.assert_close(load_split(PIXELS, data, "test")[3][0], 2 * plain - 1, rtol=0, atol=1e-6)
    assert (plain.min(), plain.max()) == (0, 1)


def test_a_run_and_its_evaluation_see_the_same(data: Path, tmp_path: Path):
    config = RunConfig(data=PIXELS, model={"layer": "s4d", "d_model": 8, "n_layers": 1}, epochs=1)
    done = run(config, tmp_path / "run", data=data, device="cpu", progress=False, summary=False)
    test = load("pathfinder", data, "test", **OPTIONS)
    again = evaluate(done, data=data, device="cpu")
    scaled = test.scaled([0.5], [0.5])
    assert again == evaluate(done, test, device="cpu") == evaluate(done, scaled, device="cpu")
    assert again["loss"] == pytest.approx(done.test_metrics["loss"], rel=1e-5)
    # A model alone knows of no config.
    assert again == evaluate(done.model("cpu"), scaled, device="cpu")
    assert again["loss"] != pytest.approx(evaluate(done.model("cpu"), test, device="cpu")["loss"], rel=1e-3)
    # Own data are kept as they come, and scaled by the config too.
    splits = {split: load("pathfinder", data, split, **OPTIONS) for split in ("train", "val", "test")}
    own = run(config, tmp_path / "own", datasets=splits, device="cpu", progress=False, summary=False)
    assert own.test_metrics == done.test_metrics


def test_what_are_no_pixels_is_not_scaled(data: Path, tmp_path: Path):
    config = RunConfig(
        data=DataConfig(task="toy", options={"length": 8, "vocabulary": 5}, normalize=(0.5, 0.5), batch_size=4),
        model={"layer": "s4d", "d_model": 4, "n_layers": 1},
        epochs=1,
    )
    with pytest.raises(ArgumentError, match=r"normalize = \(0.5, 0.5\) is for pixels, and toy has none: leave it out"):
        run(config, tmp_path / "run", data=data, device="cpu", progress=False, summary=False)
