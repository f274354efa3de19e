"""Tables of ``D + U V`` against powers of the matrix written out, and their derivatives of every kind."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from kernel_suite import _written_out, system
from wellposed.kernels import LowRankRecurrence
from wellposed.kernels.low_rank_plain import plain_tables
from wellposed.kernels.low_rank_tables import low_rank_tables

KINDS = ("low-rank", "low-rank-2-two-inputs")


def arguments(made: LowRankRecurrence) -> list[Any]:
    B = made.B if made.B.ndim == 3 else made.B[..., None]
    tensors = made.modes.decay, made.modes.angle, made.U, made.V, B.mT, made.C.transpose(0, 1)
    return [t.detach().clone().requires_grad_() for t in tensors]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("count", [1, 2, 5, 64])
def test_tables_are_powers(kind: str, count: int):
    made = system(kind, modes=3, directions=2)
    A, values = _written_out(made), arguments(made)
    powers = torch.stack(
        [torch.linalg.matrix_power(A, t) for t in range(count + 1)], 1
    )  # (channel, time, state, state)
    right = (
        torch.einsum("htij,hkj->hkti", powers[:, :count], values[4]),
        torch.einsum("hki,htij->hktj", values[5], powers),
        powers[:, -1],
    )
    for method in (low_rank_tables, plain_tables):
        for a, b in zip(method(*values, count=count), right, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated:DeprecationWarning")  # by PyTorch itself
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("count", [1, pytest.param(4, marks=pytest.mark.slow)])
def test_derivatives_of_tables(kind: str, count: int):
    """First, second and forward-mode, against difference quotients and against each other."""
    values = arguments(system(kind, channels=1, directions=2))
    assert torch.autograd.gradcheck(lambda *v: low_rank_tables(*v, count=count), values, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(lambda *v: low_rank_tables(*v, count=count), values)


def test_gradients_of_some_inputs():
    """What is not asked for, or not used, is not in the way."""
    values = arguments(system("low-rank"))
    alone = [t.detach() for t in values[:4]] + values[4:]
    columns, rows, _ = low_rank_tables(*alone, count=6)
    found = torch.autograd.grad(columns.sum() + rows[:, :, 2].sum(), alone[4:])
    columns, rows, _ = plain_tables(*alone, count=6)
    right = torch.autograd.grad(columns.sum() + rows[:, :, 2].sum(), alone[4:])
    for a, b in zip(found, right, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("steps", [1, 3, 128, 129, 5000])
def test_many_steps_at_once(steps: int):
    """Modes that hardly decay: after thousands of steps as exact as a product of matrices in float64 can be."""
    made = system("low-rank", modes=3)
    made = LowRankRecurrence(
        type(made.modes)(1e-4 * made.modes.decay, made.modes.angle), made.U, -made.U, made.B, made.C
    )
    A = _written_out(made)
    torch.testing.assert_close(
        made.every(steps).transition, torch.linalg.matrix_power(A, steps), rtol=1e-10, atol=1e-11
    )
