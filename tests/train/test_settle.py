"""Statistics of batch norm taken anew before an evaluation: those of the weights that are evaluated."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from training_toys import MODEL, config, course, splits, weights, words
from wellposed.data import Order
from wellposed.errors import ArgumentError
from wellposed.nn import MaskedBatchNorm
from wellposed.train import EvaluationConfig, run
from wellposed.train._objective import make_model
from wellposed.train._settle import settle

QUIET: Any = {"device": "cpu", "progress": False}


def by_hand(sequences: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Mean and unbiased variance of each channel over all steps that exist."""
    steps = np.concatenate(sequences)
    return steps.mean(0), steps.var(0, ddof=1)


def encoded(model: Any, dataset: Any, items: np.ndarray) -> list[np.ndarray]:
    """What the norm in front of the first layer is given, a sequence at a time."""
    with torch.no_grad():
        return [model.backbone.encoder(dataset[item][0][None].long())[0].double().numpy() for item in items.tolist()]


@pytest.mark.parametrize("ema", [None, 0.5])
def test_a_run_is_judged_by_the_statistics_of_its_weights(tmp_path: Path, ema: float | None):
    """The mean over the first batches of the next epoch, of what the best weights make of them."""
    data, count = splits(words), 2
    one = config(model=MODEL | {"norm": "batch"}, evaluation=EvaluationConfig(settle=count), ema=ema)
    done = run(one, tmp_path / "run", datasets=data, **QUIET)
    model: Any = done.model("cpu")
    assert done.best_epoch is not None
    order = Order(len(data["train"]), one.data.batch_size, seed=one.seed, drop_last=True)
    batches = order.batches(done.best_epoch)[:count]
    found = [by_hand(encoded(model, data["train"], items)) for items in batches]
    mean, var = (np.mean(part, axis=0) for part in zip(*found, strict=True))
    norm = model.backbone.blocks[0].norm
    # Sums of a few hundred float32 numbers.
    np.testing.assert_allclose(norm.running_mean.numpy(), mean, atol=1e-5)
    np.testing.assert_allclose(norm.running_var.numpy(), var, rtol=1e-4)
    assert norm.momentum == 0.1


def test_without_batch_norm_it_changes_nothing(tmp_path: Path):
    for settled in (0, 2):
        one = config(evaluation=EvaluationConfig(settle=settled))
        run(one, tmp_path / str(settled), datasets=splits(words), **QUIET)
    assert weights(tmp_path / "0") == weights(tmp_path / "2")
    assert course(tmp_path / "0") == course(tmp_path / "2")


def test_norms_are_left_as_they_were_also_after_an_error():
    dataset = words()
    model = make_model(dataset, MODEL | {"norm": "batch"}, 0).eval()

    def broken() -> Any:
        yield dataset.batch(torch.arange(4))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        settle(model, broken())
    norms = [module for module in model.modules() if isinstance(module, MaskedBatchNorm)]
    assert norms
    assert all(norm.momentum == 0.1 and not norm.training for norm in norms)
    assert all(norm.num_batches_tracked == 1 for norm in norms)


def test_a_number_of_batches():
    with pytest.raises(ArgumentError, match=r"evaluation\.settle"):
        EvaluationConfig(settle=-1)
