"""What a CUDA graph would do with a step, on the CPU: the same operations again on the same memory, and no Python."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from training_toys import MODEL, config, course, slopes, splits, waves, weights, words
from wellposed.train import DataConfig, OptimizerConfig, run
from wellposed.train import _session as session
from wellposed.train._recorded import Recorded, Recorder

Call = tuple[Any, tuple[Any, ...], dict[str, Any], Any]


class Tape(TorchDispatchMode):
    """Writes down every operation with the tensors it was given and made; whoever reads a value is refused."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[Call] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.overloadpacket in (torch.ops.aten._local_scalar_dense, torch.ops.aten.is_nonzero):
            raise RuntimeError("a value was read, for which a GPU would have to be waited for")
        out = func(*args, **(kwargs or {}))
        self.calls.append((func, args, kwargs or {}, out))
        return out

    def play(self) -> None:
        """All of it once more, results in their old places."""
        with torch.no_grad():
            for func, args, kwargs, out in self.calls:
                new = func(*args, **kwargs)
                returns = func._schema.returns
                pairs = zip(
                    returns, *(each if isinstance(each, tuple) else (each,) for each in (out, new)), strict=False
                )
                for how, old, fresh in pairs:
                    if how.alias_info is None:  # neither a view nor in place
                        _put(old, fresh)


def _put(old: Any, new: Any) -> None:
    if isinstance(old, Tensor):
        old.copy_(new)
    elif isinstance(old, list | tuple):
        for one, other in zip(old, new, strict=True):
            _put(one, other)


class TapeRecorder(Recorder):
    """In the place of CUDA graphs. Taping computes, so that the first replay is done already."""

    recorded = replayed = 0

    def record(self, function: Callable[[], None]) -> Callable[[], None]:
        tape, done = Tape(), []
        with tape:
            function()
        TapeRecorder.recorded += 1

        def replay() -> None:
            if done:
                TapeRecorder.replayed += 1
                tape.play()
            done.append(True)

        return replay


def test_a_tape_notices_what_a_graph_would_not_do():
    x, steps = torch.zeros(2), []

    def once(_: str) -> None:
        steps.append(1)
        x.add_(len(steps))  # a number of Python's: a graph would add the same again

    recorded = Recorded(once, TapeRecorder())
    for _ in range(6):
        recorded("a")
    assert x.tolist() == [1 + 2 + 3 + 4 + 4 + 4] * 2
    broken = Recorded(lambda _: x.add_(x.sum().item()), TapeRecorder())
    for _ in range(3):
        broken("a")
    with pytest.warns(UserWarning, match="a value was read"):
        broken("a")


@pytest.mark.parametrize(
    ("changes", "make"),
    [
        ({}, waves),
        ({"optimizer": OptimizerConfig(clip=0.1), "model": MODEL | {"norm": "batch"}, "ema": None}, waves),
        ({"model": MODEL | {"layer": "s5", "tied_dropout": False}}, slopes),
        ({"data": DataConfig(task="toys", batch_size=8, multiple=16)}, words),
        ({"data": DataConfig(task="toys", batch_size=8, multiple=32)}, partial(words, pairs=True)),
    ],
    ids=["average", "clip and batch norm", "s5", "lengths", "pairs"],
)
def test_a_run_replayed_is_the_run_called(changes, make, tmp_path, monkeypatch):
    quiet: Any = {"device": "cpu", "progress": False}
    settings = config(epochs=5, **changes)
    run(settings, tmp_path / "called", datasets=splits(make), **quiet)
    monkeypatch.setattr(session, "recorder_for", lambda *_: TapeRecorder())
    for module in ("_lengths", "_encoders", "_norms"):  # tokens and lengths are not looked at while a GPU records
        monkeypatch.setattr(f"wellposed.nn.{module}.readable", lambda _: False)
    TapeRecorder.recorded = TapeRecorder.replayed = 0
    run(settings, tmp_path / "replayed", datasets=splits(make), **quiet)
    assert TapeRecorder.recorded >= 2  # a step, and an evaluation
    assert TapeRecorder.replayed >= 10
    assert course(tmp_path / "replayed") == course(tmp_path / "called")
    assert weights(tmp_path / "replayed") == weights(tmp_path / "called")


def test_the_rates_of_a_replayed_step_follow_the_schedule():
    from lightning_fabric import Fabric

    from wellposed.train._objective import Objective, make_model
    from wellposed.train._optimizer import make_optimizer
    from wellposed.train._sources import ResidentSource
    from wellposed.train._step import Tally, TrainingStep

    data, cpu = waves(64), torch.device("cpu")
    net = make_model(data, MODEL, 0)
    fabric = Fabric(accelerator="cpu", devices=1)
    optimizer = make_optimizer(net, OptimizerConfig(lr=0.01))
    model, wrapped = fabric.setup_module(net), fabric.setup_optimizers(optimizer)
    step = TrainingStep(fabric, model, wrapped, Tally(Objective.of(data.info), cpu), clip=None, average=None)
    source = ResidentSource(data.batches(8, device=cpu), cpu, step, TapeRecorder())
    factors = np.linspace(0.1, 0.8, 8, dtype=np.float32)
    found = [float(optimizer.param_groups[-1]["lr"]) for _ in source.steps(factors)]
    assert found == pytest.approx((0.01 * factors).tolist(), rel=1e-6)
