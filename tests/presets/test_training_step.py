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
    rates = {"lr": o.lr, "ssm_lr": o.ssm_lr, "weight_decay": o.weight_decay}
    return nn.parameter_groups(model, **rates, decay=o.decay, ssm=o.ssm, frozen=o.frozen)


def s4_parameters(depth: int, H: int, N: int, systems: int, ends: int) -> int:
    """Both directions, half of the states stored, complex numbers as two: A, B shared; C, D, dt a channel; the gate."""
    layer = systems * (2 * N // 2 + N) + 2 * H * N + 2 * H
    gate, norm = 2 * H * H + 2 * H, 2 * H
    return depth * (layer + gate + norm) + ends


def s5_parameters(depth: int, H: int, P: int, ends: int) -> int:
    layer = 2 * P // 2 + P * H + 2 * H * P + H + P // 2
    gate, norm = H * H + H, 2 * H
    return depth * (layer + gate + norm) + ends


def transformer_parameters(depth: int, H: int, attention: int, mlp: int, ends: int) -> int:
    """Four maps without a bias, the feed-forward network, two norms; a norm at the end."""
    return depth * (4 * H * attention + 2 * H * mlp + H + mlp + 4 * H) + 2 * H + ends


def luna_parameters(depth: int, H: int, ffn: int, ends: int) -> int:
    """Seven maps, the feed-forward network, three norms; 256 packed rows, and a norm of the vectors."""
    return depth * (7 * (H * H + H) + 2 * H * ffn + H + ffn + 6 * H) + 256 * H + 2 * H + ends


def ccnn_parameters(depth: int, C: int, hidden: int, classes: int) -> int:
    """Four Gabor functions and three maps a kernel, its mask; from one number a step on."""

    def conv(inputs: int) -> int:
        kernel = 16 * hidden + 3 * (hidden * hidden + hidden) + inputs * (hidden + 1) + 1
        return kernel + inputs + inputs * C + C

    return conv(1) + 2 * C + depth * (2 * C + conv(C) + C * C + C) + 2 * C + C * classes + classes


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        # ends: vectors of tokens or pixels, positions, the class vector, the head
        ("lra-listops-transformer", transformer_parameters(4, 512, 512, 1024, 18 * 512 + 512 + 525312 + 10250)),
        ("lra-image-transformer", transformer_parameters(1, 128, 64, 128, (256 + 1025 + 1) * 128 + 16512 + 1290)),
        ("lra-pathfinder-transformer", transformer_parameters(4, 32, 16, 32, 256 * 32 + 1056 + 66)),
        ("lra-pathx-h-transformer", transformer_parameters(1, 32, 16, 32, (256 + 16384) * 32 + 1056 + 66)),
        ("lra-retrieval-h-transformer", transformer_parameters(4, 128, 128, 512, 98 * 128 + 131584 + 131328 + 514)),
        ("lra-listops-luna", luna_parameters(1, 512, 2048, 18 * 512 + 512 * 2048 + 2048 + 20480)),
        ("lra-retrieval-luna", luna_parameters(4, 128, 512, 98 * 128 + 256 * 512 + 512 + 1024)),
        ("lra-image-luna", luna_parameters(1, 64, 128, 256 * 64 + 64 * 128 + 128 + 1280)),
        ("lra-image-ccnn", ccnn_parameters(6, 380, 64, 10)),
        ("lra-listops-ccnn-small", ccnn_parameters(4, 140, 32, 10)),
        # ends: encoder (tokens x H, or H weights and biases a channel), last norm with prenorm but for S5, head
        ("lra-listops-s4ptd", s4_parameters(8, 256, 64, 1, 18 * 256 + 256 * 10 + 10)),
        ("lra-text-s4d", s4_parameters(6, 256, 64, 256, 134 * 256 + 2 * 256 + 256 * 2 + 2)),
        ("lra-image-s4ptd", s4_parameters(6, 128, 64, 1, 2 * 128 + 128 * 10 + 10)),
        ("lra-pathfinder-s4ptd", s4_parameters(6, 512, 64, 1, 2 * 512 + 2 * 512 + 512 * 2 + 2)),
        ("lra-text-s5ptd", s5_parameters(6, 256, 192, 134 * 256 + 256 * 2 + 2)),
        ("lra-image-s5", s5_parameters(6, 512, 384, 2 * 512 + 512 * 10 + 10)),
        # the head of pairs: 4 H to H, H to 2
        ("lra-retrieval-s5ptd", s5_parameters(6, 128, 256, 98 * 128 + 4 * 128**2 + 128 + 128 * 2 + 2)),
    ],
)
def test_numbers_of_parameters(name: str, parameters: int):
    assert estimate(preset(name)).parameters == parameters


def test_sizes_of_the_other_rows():
    """In millions, as the authors' code has them; where it has more tokens than our data, with these added."""
    rows = {
        "listops-transformer": 8.95, "image-transformer": 0.25, "pathfinder-transformer": 0.027,
        "pathx-transformer": 0.54, "listops-luna": 5.16, "image-luna": 0.09, "pathfinder-luna": 0.25,
        "image-ccnn-small": 0.199, "listops-ccnn-small": 0.199, "image-ccnn": 1.99,
    }  # fmt: skip
    for name, millions in rows.items():
        assert estimate(preset(f"lra-{name}")).parameters / 1e6 == pytest.approx(millions, rel=0.02)
    bytes_, more = 257, {"text-transformer": (3.49, 134, 256), "retrieval-transformer": (1.09, 98, 128)}
    more |= {"text-luna": (4.35, 134, 256), "retrieval-luna": (1.19, 98, 128)}
    for name, (millions, ours, features) in more.items():
        found = estimate(preset(f"lra-{name}")).parameters + (bytes_ - ours) * features
        assert found / 1e6 == pytest.approx(millions, abs=0.005)


def test_s4ptd_has_as_many_parameters_as_s4d():
    """Section 5.1: "the same number of parameters"."""
    for colour in ("scifar", "scifar-grey"):
        end = "-trained" if colour == "scifar" else ""
        counts = [estimate(preset(f"{colour}-{layer}{end}")).parameters for layer in ("s4d", "s4ptd", "s5", "s5ptd")]
        assert counts[0] == counts[1]
        assert counts[2] == counts[3]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["listops-transformer", "listops-h-transformer", "listops-luna", "image-ccnn"])
def test_the_other_rows_learn(name: str, root: Path):
    """Ten classes, a tenth right by chance: more than half of fresh sequences after a minute on a CPU."""
    config = preset(f"tiny-lra-{name}")
    options = {**config.data.options, "train": 1024, "test": 256}
    train, test = (load("toy", root, split, **options) for split in ("train", "test"))
    torch.manual_seed(0)
    model = nn.SequenceClassifier(**train.sizes, **{"seed": 0, **config.model})
    optimizer = torch.optim.AdamW(nn.parameter_groups(model, lr=0.003))
    for epoch in range(10):
        for batch in train.batches(32, multiple=32, seed=epoch):
            optimizer.zero_grad()
            F.cross_entropy(batch.through(model), batch.y).backward()
            optimizer.step()
    model.eval()
    with torch.no_grad():
        right = [(batch.through(model).argmax(-1) == batch.y).sum().item() for batch in test.batches(64, seed=0)]
    assert sum(right) / len(test) > 0.5


def test_tiny_keeps_what_a_preset_is():
    config = preset("tiny-lra-retrieval-s5ptd")
    assert config == tiny(preset("lra-retrieval-s5ptd"))
    assert config.data.options["pairs"]
    assert config.optimizer == preset("lra-retrieval-s5ptd").optimizer
    assert config.model["layer"] == "s5ptd"
    assert config.model["glu"] == "half"
