"""Masked batch norm is PyTorch's batch norm of the steps that exist."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from wellposed.errors import ArgumentError, ShapeError
from wellposed.nn import MaskedBatchNorm

MOMENTA = [0.1, 0.5, None]


def twins(width: int, momentum: float | None, dtype: torch.dtype) -> tuple[MaskedBatchNorm, nn.BatchNorm1d]:
    ours = MaskedBatchNorm(width, momentum=momentum, dtype=dtype)
    torch.nn.init.normal_(ours.weight)
    torch.nn.init.normal_(ours.bias)
    theirs = nn.BatchNorm1d(width, momentum=momentum, dtype=dtype)
    theirs.load_state_dict(ours.state_dict())
    return ours, theirs


def close(a: Tensor | None, b: Tensor | None, tolerance: float) -> None:
    assert a is not None
    assert b is not None
    torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("momentum", MOMENTA)
def test_padding_counts_as_zeros_where_it_is_asked_for(momentum: float | None):
    """As PyTorch's batch norm of sequences padded with zeros, but for what stands in the padding afterwards."""
    torch.manual_seed(0)
    ours, theirs = twins(3, momentum, torch.float64)
    ours.count_padding = True
    lengths = torch.tensor([6, 2, 1])
    mask = torch.arange(6) < lengths[:, None]
    for _ in range(2):
        x = 5 + torch.randn(3, 6, 3, dtype=torch.float64)
        padded = torch.where(mask[..., None], x, 0.0).requires_grad_()
        x[~mask] = torch.nan
        x.requires_grad_()
        y, expected = ours(x, lengths), theirs(padded.flatten(0, 1)).view(3, 6, 3)
        close(y[mask], expected[mask], 1e-10)
        assert not y[~mask].any()
        weights = torch.randn(9, 3, dtype=torch.float64)
        (y[mask] * weights).sum().backward()
        (expected[mask] * weights).sum().backward()
        assert x.grad is not None
        assert padded.grad is not None
        close(x.grad[mask], padded.grad[mask], 1e-10)
        assert not x.grad[~mask].any()
    for name, value in theirs.state_dict().items():
        close(ours.state_dict()[name], value, 1e-12)
    for p, q in zip(ours.parameters(), theirs.parameters(), strict=True):
        close(p.grad, q.grad, 1e-10)


@given(
    lengths=st.lists(st.integers(1, 6), min_size=2, max_size=5),
    momentum=st.sampled_from(MOMENTA),
    seed=st.integers(0, 99),
)
def test_statistics_of_the_steps_that_exist(lengths: list[int], momentum: float | None, seed: int):
    torch.manual_seed(seed)
    ours, theirs = twins(3, momentum, torch.float64)
    mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    for _ in range(2):  # the second time the running statistics have moved
        x = 5 + torch.randn(len(lengths), max(lengths), 3, dtype=torch.float64)
        weights = torch.randn(sum(lengths), 3, dtype=torch.float64)
        flat = x[mask].requires_grad_()
        x[~mask] = torch.nan
        x.requires_grad_()
        y, expected = ours(x, torch.tensor(lengths)), theirs(flat)
        close(y[mask], expected, 1e-10)
        assert not y[~mask].any()
        (y[mask] * weights).sum().backward()
        (expected * weights).sum().backward()
        assert x.grad is not None
        close(x.grad[mask], flat.grad, 1e-10)
    for name, value in theirs.state_dict().items():
        close(ours.state_dict()[name], value, 1e-12)
    for p, q in zip(ours.parameters(), theirs.parameters(), strict=True):
        close(p.grad, q.grad, 1e-10)
    x = torch.randn(len(lengths), max(lengths), 3, dtype=torch.float64)
    close(ours.eval()(x, torch.tensor(lengths))[mask], theirs.eval()(x[mask]), 1e-10)


@pytest.mark.parametrize("training", [True, False])
def test_is_batch_norm_where_nothing_is_padded(training: bool):
    ours, theirs = (m.train(training) for m in twins(4, 0.1, torch.float32))
    x = torch.randn(3, 7, 4)
    expected = theirs(x.mT).mT
    close(ours(x), expected, 1e-6)
    for name, value in theirs.state_dict().items():
        close(ours.state_dict()[name].float(), value.float(), 1e-6)
    close(ours.eval()(x, torch.full((3,), 7)), theirs.eval()(x.mT).mT, 1e-6)


def test_half_precision_keeps_its_type_and_float32_statistics():
    ours, theirs = twins(4, 0.1, torch.float32)
    x = torch.randn(3, 40, 4)
    y = ours(x.bfloat16(), torch.tensor([40, 20, 3]))
    assert y.dtype == torch.bfloat16
    flat = torch.cat([x[0], x[1, :20], x[2, :3]])
    close(torch.cat([y[0], y[1, :20], y[2, :3]]).float(), theirs(flat), 0.1)
    assert ours.running_var is not None
    assert ours.running_var.dtype == torch.float32


def test_without_parameters_of_its_own():
    x = torch.randn(2, 5, 3)
    y = MaskedBatchNorm(3, affine=False)(x, torch.tensor([5, 2]))
    close(torch.cat([y[0], y[1, :2]]).mean(0), torch.zeros(3), 1e-6)


def test_errors():
    norm = MaskedBatchNorm(3)
    with pytest.raises(ArgumentError, match="more than one step"):
        norm(torch.randn(1, 1, 3))
    with pytest.raises(ArgumentError, match="more than one step"):
        norm(torch.randn(1, 4, 3), torch.tensor([1]))
    assert norm.eval()(torch.randn(1, 1, 3)).shape == (1, 1, 3)
    with pytest.raises(ShapeError, match=r"\(batch, length, 3\), got \(2, 5, 4\)"):
        norm(torch.randn(2, 5, 4))
    with pytest.raises(ArgumentError, match="from 1 to 5"):
        norm(torch.randn(2, 5, 3), torch.tensor([6, 1]))
