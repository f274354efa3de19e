"""Blocks are the formulas of the papers, written out here with PyTorch's own functions."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from subprocesses import run_python
from wellposed.errors import ArgumentError, ShapeError
from wellposed.nn import S4D, ResidualBlock, SelfAttention, TiedDropout

GLUS = ["full", "half", "half2", "none"]


def layer(**options: Any) -> S4D:
    return S4D(4, 6, seed=0, dtype=torch.float64, **options)


def sequences(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def close(a: Tensor, b: Tensor) -> None:
    torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("prenorm", [True, False])
@pytest.mark.parametrize("activation", ["gelu", "gelu_tanh", "none"])
@pytest.mark.parametrize("glu", GLUS)
def test_formula(prenorm: bool, activation: Any, glu: Any):
    inner, u = layer(), sequences(2, 9, 4)
    block = ResidualBlock(inner, prenorm=prenorm, activation=activation, glu=glu, seed=5)
    y = inner(F.layer_norm(u, (4,)) if prenorm else u)
    assert isinstance(y, Tensor)
    gelus = {"gelu": F.gelu, "gelu_tanh": lambda t: F.gelu(t, approximate="tanh"), "none": lambda t: t}
    x = gelus[activation](y)
    mix = lambda t: t @ block.mix.weight.T + block.mix.bias  # noqa: E731
    gates = {
        "full": lambda: mix(x)[..., :4] * torch.sigmoid(mix(x)[..., 4:]),
        "half": lambda: x * torch.sigmoid(mix(x)),
        "half2": lambda: y * torch.sigmoid(mix(x)),
        "none": lambda: x,
    }
    z = u + gates[glu]()
    close(block(u), z if prenorm else F.layer_norm(z, (4,)))


def test_without_the_way_around():
    inner, u = layer(), sequences(2, 9, 4)
    block = ResidualBlock(inner, norm="none", activation="none", glu="none", residual=False)
    close(block(u), inner(u))


@pytest.mark.parametrize("norm", ["layer", "batch", "none"])
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("prenorm", [True, False])
def test_padding_changes_nothing(norm: Any, bidirectional: bool, prenorm: bool):
    block = ResidualBlock(layer(bidirectional=bidirectional), norm=norm, prenorm=prenorm).eval()
    u, lengths = sequences(3, 9, 4), torch.tensor([9, 4, 1])
    u[1, 4:], u[2, 1:] = torch.nan, torch.inf
    y = block(u, lengths=lengths)
    singles = [block(u[i : i + 1, :n])[0] for i, n in enumerate(lengths.tolist())]
    for i, n in enumerate(lengths.tolist()):
        close(y[i, :n], singles[i])
        assert not y[i, n:].any()
    together = torch.autograd.grad(y.square().sum(), list(block.parameters()))
    apart = torch.autograd.grad(torch.cat(singles).square().sum(), list(block.parameters()))
    for a, b in zip(together, apart, strict=True):
        close(a, b)


@pytest.mark.parametrize("prenorm", [True, False])
def test_batch_norm_in_training_sees_only_true_steps(prenorm: bool):
    block = ResidualBlock(layer(), norm="batch", prenorm=prenorm)
    u, lengths = sequences(2, 9, 4), torch.tensor([9, 4])
    y = block(u, lengths=lengths)
    if prenorm:
        flat = F.batch_norm(torch.cat([u[0], u[1, :4]]), None, None, training=True)
        plain = ResidualBlock(block.layer, norm="none")
        plain.mix = block.mix
        parts = [flat[None, :9], flat[None, 9:]]
        first, second = (plain(part)[0] - part[0] for part in parts)
        close(y[0], u[0] + first)
        close(y[1, :4], u[1, :4] + second)
    else:
        close(torch.cat([y[0], y[1, :4]]).mean(0), torch.zeros(4, dtype=torch.float64))


@pytest.mark.parametrize("norm", ["layer", "batch", "none"])
@pytest.mark.parametrize("glu", GLUS)
@pytest.mark.parametrize("prenorm", [True, False])
def test_steps_make_the_whole(norm: Any, glu: Any, prenorm: bool):
    block = ResidualBlock(layer(), norm=norm, glu=glu, prenorm=prenorm, dropout=0.3)
    block(sequences(3, 9, 4) + 2)  # running statistics away from 0 and 1
    block.eval()
    u = sequences(2, 9, 4)
    whole, last = block(u, return_state=True)
    first, state = block(u[:, :5], state=block.initial_state(2), return_state=True)
    parts = [first]
    for t in range(5, 9):
        y, state = block.step(u[:, t], state)
        parts.append(y[:, None])
    close(torch.cat(parts, 1), whole)
    close(state, last)


def test_tied_dropout_keeps_or_drops_a_channel_of_a_sequence():
    torch.manual_seed(0)
    x = 1 + sequences(50, 7, 40).abs()
    y = TiedDropout(0.25)(x)
    kept = y[:, 0] != 0
    close(y, torch.where(kept[:, None], x / 0.75, 0.0))
    assert abs(kept.double().mean().item() - 0.75) < 0.05
    assert torch.equal(TiedDropout(0.25).eval()(x), x)
    assert torch.equal(TiedDropout(0)(x), x)


def test_untied_dropout_in_a_block():
    block = ResidualBlock(layer(), dropout=0.5, tied_dropout=False, norm="none", residual=False)
    torch.manual_seed(0)
    zero = block(sequences(2, 50, 4)) == 0
    assert 0.3 < zero.double().mean() < 0.7
    assert not zero.all(1).any()
    tied = ResidualBlock(layer(), dropout=0.5, norm="none", residual=False)
    zero = tied(sequences(20, 5, 4)) == 0
    assert torch.equal(zero.all(1), zero.any(1))
    assert 0.3 < zero.double().mean() < 0.7


def test_seed_and_attention():
    a, b = (ResidualBlock(SelfAttention(8, 2, seed=1), seed=2) for _ in range(2))
    u = torch.randn(2, 5, 8)
    assert torch.equal(a(u), b(u))


def test_errors():
    state = layer().initial_state(2)
    with pytest.raises(ArgumentError, match="batch norm in training"):
        ResidualBlock(layer(), norm="batch").step(sequences(2, 4), state)
    with pytest.raises(ArgumentError, match="dropout tied over time"):
        ResidualBlock(layer(), dropout=0.1).step(sequences(2, 4), state)
    with pytest.raises(ArgumentError, match="below 1, got 1"):
        ResidualBlock(layer(), dropout=1)
    both = ResidualBlock(layer(bidirectional=True))
    with pytest.raises(ArgumentError, match="reads the future"):
        both.initial_state(2)
    with pytest.raises(ArgumentError, match="reads the future"):
        both(sequences(2, 5, 4), return_state=True)


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda block: block(torch.zeros(2, 5, 3)), r"d_model = 4, got \(2, 5, 3\)"),
        (lambda block: block(torch.zeros(2, 5, 4).double()), "torch.float64"),
        (lambda block: block(torch.zeros(2, 5, 4).bfloat16()), "this block torch.float32: .*autocast"),
        (lambda block: block(torch.zeros(2, 5, 4, dtype=torch.int64)), "floating-point"),
        (lambda block: block.step(torch.zeros(2, 3), block.initial_state(2)), r"got \(2, 3\)"),
    ],
)
def test_a_block_checks_before_its_norm(call: Any, match: str):
    block: Any = ResidualBlock(S4D(4, 6)).eval()
    for name in ("forward", "step"):  # as a user meets them, without the checks of annotations that tests add
        method = getattr(ResidualBlock, name)
        setattr(block, name, getattr(method, "__wrapped__", method).__get__(block))
    with pytest.raises((ArgumentError, ShapeError), match=match):
        call(block)


def test_a_block_is_built_around_a_sequence_layer():
    """Without the checks of annotations that come before in these tests."""
    printed = run_python("""
import torch
from wellposed.errors import ArgumentError
from wellposed.nn import ResidualBlock
try:
    ResidualBlock(torch.nn.Linear(4, 4))
except ArgumentError as error:
    print(error)
""")
    assert "built around a sequence layer such as S4PTD, got Linear" in printed
