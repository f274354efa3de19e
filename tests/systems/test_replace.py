"""Exchanging parts of a system: what is checked, and what stays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from dense_twin import Twin, assert_close
from wellposed.errors import ArgumentError, NotFiniteError, NotRealError, ShapeError, TimeDomainError, UnknownNameError
from wellposed.systems import DenseSystem, DiagonalSystem, DPLRSystem, System, s4, s4d

A = np.array([[-1.0, 0.5], [0.0, -2.0]])
SISO = DenseSystem(A, [1.0, 2.0], [3.0, 4.0], 0.5)
MIMO = DenseSystem(A, np.ones((2, 3)), np.ones((1, 2)))
PAIRS = DiagonalSystem([-1 + 2j, -0.5], [1.0, 1.0], [1.0, 1.0], pairs=True)


@pytest.mark.parametrize("B", [[5.0, 6.0], [[5.0], [6.0]], torch.tensor([5.0, 6.0])])
def test_one_channel_stays_one_channel(B: Any):
    new = SISO.replace(B=B, D=0.25)
    assert new.siso
    expected = Twin(A, np.array([[5.0], [6.0]]), np.array([[3.0, 4.0]]), np.array([[0.25]])).transfer(2j)
    assert_close(new(2j), expected[0, 0], 1e-14)
    assert SISO.D.item() == 0.5


def test_vectors_are_a_column_and_a_row_where_there_are_channels():
    new = MIMO.replace(B=[1.0, 2.0], C=[1.0, 0.0], D=0.0)
    assert not new.siso
    assert new(1j).shape == (1, 1)


def test_a_batch_of_feedthroughs_for_one_channel():
    batch = DenseSystem(np.stack([A, 2 * A]), np.ones((2, 2)), np.ones((2, 2)))
    assert_close(batch.replace(D=[1.0, 2.0])(3.0) - batch(3.0), np.array([1.0, 2.0]), 1e-14)


@pytest.mark.parametrize(
    ("system", "parts", "error", "message"),
    [
        (SISO, {"b": [1.0, 1.0]}, UnknownNameError, "unknown part of a DenseSystem 'b'; known: A, B, C, D, dt"),
        (SISO, {"siso": False}, UnknownNameError, "unknown part of a DenseSystem 'siso'"),
        (SISO, {"Lambda": [1.0, 1.0]}, UnknownNameError, "unknown part of a DenseSystem 'Lambda'"),
        (PAIRS, {"pairs": False}, UnknownNameError, "unknown part of a DiagonalSystem 'pairs'"),
        (SISO, {"B": [1.0, 1.0, 1.0]}, ShapeError, "n = 2 states, B has 3 rows"),
        (SISO, {"B": np.ones((2, 2))}, ShapeError, r"D has shape \(1, 1\); with 1 outputs and 2 inputs"),
        (SISO, {"B": np.ones((2, 2)), "D": np.ones((1, 2))}, ShapeError, "one input and one output, not 2 and 1"),
        (SISO, {"A": np.ones((2, 3))}, ShapeError, "A must be square"),
        (SISO, {"A": np.full((2, 2), np.nan)}, NotFiniteError, "A has 4 entries"),
        (SISO, {"dt": -1.0}, TimeDomainError, "dt must be positive"),
        (PAIRS, {"D": 1j}, NotRealError, "D may not be complex"),
    ],
)
def test_parts_are_checked_as_a_constructor_checks_them(system: System, parts: Any, error: type, message: str):
    with pytest.raises(error, match=message):
        system.replace(**parts)


def test_precision_is_the_highest_of_all_parts():
    single = s4d(4).to(torch.float32)
    assert single.replace(B=single.B * 2).B.dtype == torch.complex64
    assert single.replace(B=s4d(4).B).Lambda.dtype == torch.complex128
    for half in (torch.float16, torch.bfloat16, torch.int64):
        with pytest.raises(ArgumentError, match=f"float32 or float64 numbers, not {half}"):
            SISO.to(half)


def test_pairs_that_alias_to_the_real_axis_stay_pairs():
    # exp(i pi) is real: read anew, the eigenvalue would count once, and half the response would be lost.
    discrete = DiagonalSystem([-0.1 + 1j * np.pi], [1.0], [1.0], pairs=True).discretize(1.0, "zoh")
    aliased = discrete.replace(Lambda=discrete.Lambda.real)
    assert (discrete.n, aliased.n) == (2, 1)
    real = DiagonalSystem([-800 + 3j], [1.0], [1.0], pairs=True).discretize(1.0, "zoh")  # underflows to 0
    assert real.Lambda.imag.item() == 0
    for same in (real.replace(C=[1.0]), real.replace(B=real.B), real.to(torch.float32), real.detach()):
        assert same.n == 2
        assert_close(same.impulse_response(3), real.impulse_response(3), 1e-6)
    batch = DiagonalSystem([[-800 + 3j], [-1 + 1j]], np.ones((2, 1)), np.ones((2, 1)), pairs=True)
    assert batch.discretize(1.0, "zoh")[0].n == 2


def test_low_rank_parts_follow_each_other_only_if_they_were_one():
    P = np.array([[1.0], [2.0]])
    shared = DPLRSystem([-1.0, -2.0], P, B=[1.0, 1.0], C=[1.0, 0.0])
    own = DPLRSystem([-1.0, -2.0], P, P, B=[1.0, 1.0], C=[1.0, 0.0])
    for system in (shared, shared.replace(C=[0.0, 1.0]), shared.to(torch.float32).to(torch.float64), shared.detach()):
        assert_close(system.replace(P=3 * P).to_dense().A, np.diag([-1.0, -2.0]) - 9 * P @ P.T, 1e-14)
    assert_close(own.replace(P=3 * P).to_dense().A, np.diag([-1.0, -2.0]) - 3 * P @ P.T, 1e-14)
    assert_close(shared.replace(Q=3 * P).to_dense().A, np.diag([-1.0, -2.0]) - 3 * P @ P.T, 1e-14)


def test_tensors_are_shared_and_gradients_pass():
    B = torch.ones(2, dtype=torch.float64, requires_grad=True)
    system = SISO.replace(B=B)
    assert system.A.data_ptr() == SISO.A.data_ptr()
    (gradient,) = torch.autograd.grad(system(0.0).real, B)
    assert_close(gradient, -np.linalg.solve(A.T, [3.0, 4.0]), 1e-14)
    assert not system.detach().B.requires_grad


def test_a_step_can_be_exchanged():
    assert SISO.replace(dt=0.1).is_discrete
    assert not SISO.discretize(0.1).replace(dt=None).is_discrete
    assert s4(4).discretize(0.1).replace(dt=0.2).dt == 0.2
