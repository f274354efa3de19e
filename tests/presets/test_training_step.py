"""Every preset is built and learns: its tiny form takes a step, its full form has as many parameters as it should."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from wellposed import nn
from wellposed.data import load
from wellposed.presets import PRESETS, estimate, preset, shape_of, tiny
from wellposed.train import RunConfig


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("data")


@pytest.mark.parametrize(
    "name",
    # six tasks a layer: of each every other one in the quick tests, in turn
    [pytest.param(name, marks=pytest.mark.slow if (k + k // 6) % 2 else ()) for k, name in enumerate(PRESETS)],
)
def test_one_training_step(name: str, root: Path):
    config = tiny(PRESETS[name]())
    train = load(config.data.task, root, "train", **config.data.options)
    assert dict(train.sizes) == shape_of(config.data.task, config.data.options).sizes
    kind = nn.PairClassifier if train.info.pairs else nn.SequenceClassifier if train.classes else nn.SequenceRegressor
    model = kind(**train.sizes, **{"seed": 0, **config.model})
    optimizer = torch.optim.AdamW(groups(model, config), betas=config.optimizer.betas)
    batch = next(iter(train.batches(config.data.batch_size, multiple=config.data.multiple, seed=0)))

    def loss() -> torch.Tensor:
        found = batch.through(model)
        return F.cross_entropy(found, batch.y) if train.classes else F.mse_loss(found, batch.y)

    before = loss()
    before.backward()
    fixed = {n: p.detach().clone() for n, p in model.named_parameters() if n.split(".")[-1] in config.optimizer.frozen}
    optimizer.step()
    after = loss()
    assert bool(after.isfinite())
    assert after != before
    assert len(fixed) == len(config.optimizer.frozen) * config.model["n_layers"]
    assert all(torch.equal(value, model.get_parameter(name)) for name, value in fixed.items())


def groups(model: torch.nn.Module, config: RunConfig) -> list[dict[str, Any]]:
    o = config.optimizer
    return nn.parameter_groups(model, lr=o.lr, ssm_lr=o.ssm_lr, ssm=o.ssm, frozen=o.frozen, weight_decay=o.weight_decay)


def s4_parameters(depth: int, H: int, N: int, systems: int, ends: int) -> int:
    """Both directions, half of the states stored, complex numbers as two: A, B shared; C, D, dt a channel; the gate."""
    layer = systems * (2 * N // 2 + N) + 2 * H * N + 2 * H
    gate, norm = 2 * H * H + 2 * H, 2 * H
    return depth * (layer + gate + norm) + ends


def s5_parameters(depth: int, H: int, P: int, ends: int) -> int:
    layer = 2 * P // 2 + P * H + 2 * H * P + H + P // 2
    gate, norm = H * H + H, 2 * H
    return depth * (layer + gate + norm) + ends


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        # ends: encoder (tokens x H, or H weights and biases a channel), last norm with prenorm, head
        ("lra-listops-s4ptd", s4_parameters(8, 256, 64, 1, 18 * 256 + 256 * 10 + 10)),
        ("lra-text-s4d", s4_parameters(6, 256, 64, 256, 134 * 256 + 2 * 256 + 256 * 2 + 2)),
        ("lra-image-s4ptd", s4_parameters(6, 128, 64, 1, 2 * 128 + 128 * 10 + 10)),
        ("lra-pathfinder-s4ptd", s4_parameters(6, 512, 64, 1, 2 * 512 + 2 * 512 + 512 * 2 + 2)),
        ("lra-text-s5ptd", s5_parameters(6, 256, 192, 134 * 256 + 2 * 256 + 256 * 2 + 2)),
        ("lra-image-s5", s5_parameters(6, 512, 384, 2 * 512 + 2 * 512 + 512 * 10 + 10)),
        # the head of pairs: 4 H to H, H to 2
        ("lra-retrieval-s5ptd", s5_parameters(6, 128, 256, 98 * 128 + 2 * 128 + 4 * 128**2 + 128 + 128 * 2 + 2)),
    ],
)
def test_numbers_of_parameters(name: str, parameters: int):
    assert estimate(preset(name)).parameters == parameters


def test_s4ptd_has_as_many_parameters_as_s4d():
    """Section 5.1: "the same number of parameters"."""
    for colour in ("scifar", "scifar-grey"):
        end = "-trained" if colour == "scifar" else ""
        counts = [estimate(preset(f"{colour}-{layer}{end}")).parameters for layer in ("s4d", "s4ptd", "s5", "s5ptd")]
        assert counts[0] == counts[1]
        assert counts[2] == counts[3]


def test_tiny_keeps_what_a_preset_is():
    config = preset("tiny-lra-retrieval-s5ptd")
    assert config == tiny(preset("lra-retrieval-s5ptd"))
    assert config.data.options["pairs"]
    assert config.optimizer == preset("lra-retrieval-s5ptd").optimizer
    assert config.model["layer"] == "s5ptd"
    assert config.model["glu"] == "half"
