"""Steps replayed from CUDA graphs: the same as called, and resumed to the bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from training_toys import MODEL, config, course, splits, waves, words
from wellposed.errors import DeviceMemoryError, NotFiniteError
from wellposed.presets import preset
from wellposed.train import DataConfig, OptimizerConfig, RunConfig, run
from wellposed.train import _loop as loop
from wellposed.train._checkpoint import LAST, read_checkpoint
from wellposed.train._recorded import GraphRecorder

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
GPU: Any = {"device": "cuda", "progress": False}


def settings(**changes: Any) -> RunConfig:
    wide = MODEL | {"d_model": 32, "layer_options": {"d_state": 16}, "norm": "batch"}
    data = DataConfig(task="toys", batch_size=8, drop_last=False, multiple=8)
    return config(**{"model": wide, "data": data, "epochs": 6, "optimizer": OptimizerConfig(clip=1.0)} | changes)


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return read_checkpoint(folder / "checkpoints" / LAST).part("model")


@pytest.mark.parametrize(
    "make", [waves, words, lambda **how: words(pairs=True, **how)], ids=["fixed", "lengths", "pairs"]
)
@pytest.mark.parametrize("precision", ["tf32", "bf16"])
def test_a_graph_does_what_the_step_does(make, precision, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    recorded = []
    record = GraphRecorder.record
    monkeypatch.setattr(GraphRecorder, "record", lambda self, function: recorded.append(1) or record(self, function))
    data = splits(make, count=60)
    for name, graph in (("graph", True), ("eager", False)):
        run(settings(precision=precision, graph=graph), tmp_path / name, datasets=data, **GPU)
    assert len(recorded) >= 2
    for name, right in weights(tmp_path / "eager").items():
        # The order of sums in a product may depend on the stream it is in, dropout does not.
        torch.testing.assert_close(weights(tmp_path / "graph")[name], right, rtol=1e-3, atol=1e-4, msg=name)


OTHER_ROWS = ("image-transformer", "text-h-transformer", "text-luna", "text-ccnn", "image-luna", "image-ccnn")


@pytest.mark.parametrize("name", OTHER_ROWS)
@pytest.mark.parametrize("precision", ["tf32", "bf16"])
def test_the_other_rows_of_the_table_are_recorded(name: str, precision: str, tmp_path: Path):
    """A step that could not be would warn, which is an error here; dropout is off, so that steps can be compared."""
    found = preset(f"tiny-lra-{name}").model
    options = {key: value for key, value in found["layer_options"].items() if key != "dropout"}
    how: Any = {"model": {**found, "layer_options": options, "dropout": 0.0}, "precision": precision}
    data = splits(words if name.startswith("text") else waves, count=60)
    for folder, graph in (("graph", True), ("eager", False)):
        run(settings(**how, graph=graph), tmp_path / folder, datasets=data, **GPU)
    # Losses, not weights: a bias of keys has no gradient but rounding, of which the optimiser makes steps all the same.
    losses = [_losses(tmp_path / folder) for folder in ("graph", "eager")]
    assert losses[0] == pytest.approx(losses[1], rel=0.02, abs=0.02)


def _losses(folder: Path) -> list[float]:
    found = [value for row in course(folder) for key, value in row.items() if key.endswith("loss")]
    assert len(found) > 6
    return found


@pytest.mark.parametrize("checks", [1, 10, 30])
def test_a_run_by_graphs_is_resumed_to_the_bit(checks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    data = splits(count=60)
    run(settings(), tmp_path / "right", datasets=data, **GPU)
    left = iter([False] * (checks - 1) + [True] * 1000)
    monkeypatch.setattr(loop, "_passed", lambda deadline: next(left))
    assert not run(settings(), tmp_path / "cut", datasets=data, minutes=1, **GPU).finished
    monkeypatch.undo()
    assert run(settings(), tmp_path / "cut", datasets=data, **GPU).finished
    for name, right in weights(tmp_path / "right").items():
        assert torch.equal(weights(tmp_path / "cut")[name], right), name
    assert course(tmp_path / "cut") == course(tmp_path / "right")


def test_numbers_that_are_not_finite_stop_a_replayed_run(tmp_path: Path):
    # Rates so large that weights overflow after some steps, when steps are replayed already.
    wild = settings(optimizer=OptimizerConfig(lr=1e30, ssm_lr=1e-3), precision="float32", ema=None)
    with pytest.raises(NotFiniteError, match=r"not finite at step \d+"):
        run(wild, tmp_path / "run", datasets=splits(count=60), **GPU)
    (saved,) = (tmp_path / "run/checkpoints").glob("not-finite-*")
    assert all(torch.isfinite(t).all() for name, t in read_checkpoint(saved).part("optimizer").items())


@pytest.mark.slow
def test_memory_that_does_not_suffice_is_explained(tmp_path: Path):
    huge = settings(data=DataConfig(task="toys", batch_size=60_000), model=MODEL | {"d_model": 512, "n_layers": 4})
    data = splits(count=60_000, length=1000)
    with pytest.raises(DeviceMemoryError, match=r"a batch of 60000 does not fit .* about \d+ would fit"):
        run(huge, tmp_path / "run", datasets=data, **GPU)
