"""Layers and blocks on a GPU, at the sizes of the papers' models, in every precision, against a textbook in float64."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from wellposed.nn import LAYERS, ResidualBlock, SequenceClassifier, SequenceLayer

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
BOTH = {"bidirectional": True}
S4_64, S5_256 = {"d_state": 64}, {"d_state": 256, "blocks": 2}
LOUD = {"C_init": "complex_normal"}  # else D u would drown what the system says, and its errors
SIZES: list[Any] = [
    ("s4ptd", S4_64, 64, 1024, 128),
    ("s4d", S4_64 | BOTH, 16, 1024, 512),
    ("s4ptd", S4_64 | BOTH, 2, 16384, 128),
    ("s4", S4_64, 64, 1024, 128),
    ("s5ptd", S5_256 | BOTH | LOUD, 2, 16384, 128),
    ("s5", S5_256 | LOUD, 50, 1024, 512),
    ("s5ptd", {"d_state": 256, "blocks": 8} | BOTH | LOUD, 64, 1024, 192),  # Pathfinder: no power of two
]
ERRORS = {"highest": 5e-6, "high": 3e-3, "bf16": 3e-2}
"""At most, by norm: float32, ten bits of each factor, eight."""


@pytest.fixture(params=ERRORS)
def precision(request: pytest.FixtureRequest) -> Iterator[str]:
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest" if request.param == "highest" else "high")
    yield request.param
    torch.set_float32_matmul_precision(before)


@pytest.fixture
def by_the_book(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    __import__("textbook")
    return sys.modules["textbook"].Textbook


def made(layer: str, options: dict[str, Any], channels: int) -> SequenceLayer:
    return LAYERS[layer](channels, seed=0, **options).cuda()


def numbers(*shape: int) -> Tensor:
    """That bfloat16 can hold: what is measured is the arithmetic, and not the rounding of the input."""
    return torch.randn(*shape, dtype=torch.bfloat16, device="cuda", generator=torch.Generator("cuda").manual_seed(1))


def values_and_gradients(module: Any, u: Tensor, dy: Tensor, *, half: bool = False) -> dict[str, Tensor]:
    u = u.clone().requires_grad_()
    named = {name.replace("own.", ""): p for name, p in module.named_parameters()}
    with torch.autocast("cuda", torch.bfloat16, enabled=half):
        y = module(u)
    found = torch.autograd.grad(y, [u, *named.values()], dy.to(y.dtype))
    return {"y": y.detach(), "u": found[0], **dict(zip(named, found[1:], strict=True))}


def worst(found: dict[str, Tensor], right: dict[str, Tensor]) -> float:
    assert found.keys() == right.keys()
    return max(float((found[name].double() - b).norm() / b.norm()) for name, b in right.items())


@pytest.mark.parametrize(("layer", "options", "batch", "length", "channels"), SIZES)
def test_layers(layer, options, batch, length, channels, precision: str, by_the_book: Any):
    own = made(layer, options, channels)
    u, dy = numbers(2, batch, length, channels)
    right = values_and_gradients(by_the_book(deepcopy(own).double()), u.double(), dy.double())
    half = precision == "bf16"
    u, dy = (t if half else t.float() for t in (u, dy))
    assert worst(values_and_gradients(own, u, dy, half=half), right) < ERRORS[precision]


@pytest.mark.parametrize(("layer", "options", "batch", "length", "channels"), SIZES)
def test_blocks_with_padding(layer, options, batch, length, channels, precision: str, by_the_book: Any):
    """Batch norm, layer, gate and the way around, of sequences of different lengths."""
    own = ResidualBlock(made(layer, options, channels), norm="batch", seed=0).cuda()
    lengths = torch.linspace(1, length, batch, device="cuda").long()
    u = numbers(batch, length, channels)
    twin: Any = deepcopy(own).double()
    # Every sequence by itself to its own length: the textbook knows no padding. The norm's statistics are fixed for it.
    for block in (own, twin):
        norm: Any = block.eval().norm
        norm.running_mean.copy_(torch.linspace(-1, 1, channels))
        norm.running_var.copy_(torch.linspace(0.5, 2, channels))
    twin.layer = by_the_book(twin.layer)
    some = [0, batch // 2, batch - 1]
    right = [twin(u[i : i + 1, : lengths[i]].double()).detach()[0] for i in some]
    with torch.no_grad(), torch.autocast("cuda", torch.bfloat16, enabled=precision == "bf16"):
        found = own(u.float(), lengths=lengths)
    for i, b in zip(some, right, strict=True):
        assert (found[i, : lengths[i]].double() - b).norm() < ERRORS[precision] * b.norm()
        assert not found[i, lengths[i] :].any()


@pytest.mark.parametrize(("layer", "options", "batch", "length", "channels"), SIZES)
def test_blocks_in_training(layer, options, batch, length, channels, precision: str, by_the_book: Any):
    """Statistics of the batch, and all gradients."""
    own = ResidualBlock(made(layer, options, channels), norm="batch", seed=0).cuda()
    u, dy = numbers(2, batch, length, channels)
    twin: Any = deepcopy(own).double()
    twin.layer = by_the_book(twin.layer)
    right = values_and_gradients(twin, u.double(), dy.double())
    found = values_and_gradients(own, u.float(), dy.float(), half=precision == "bf16")
    # Gradients of the norm cancel over all steps, so that roundings before them weigh more than elsewhere.
    assert worst(found, right) < 10 * ERRORS[precision]


@pytest.mark.parametrize("layer", ["s4ptd", "s4", "s5ptd"])
def test_same_bits(layer: str, precision: str):
    """A training step gives the same gradients every time."""
    options = S5_256 if layer == "s5ptd" else S4_64
    model = SequenceClassifier(3, 10, layer=layer, d_model=128, n_layers=2, norm="batch", layer_options=options, seed=0)
    model.cuda()
    x, results = numbers(64, 1024, 3).float(), []
    for _ in range(3):
        with torch.autocast("cuda", torch.bfloat16, enabled=precision == "bf16"):
            y = model(x)
        results.append(torch.autograd.grad(y.float().sin().sum(), list(model.parameters())))
    for other in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(results[0], other, strict=True))
