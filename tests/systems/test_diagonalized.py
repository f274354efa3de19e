"""A system in the eigenvectors of a diagonalisation, and the refusal of one that belongs to another matrix."""

from __future__ import annotations

from typing import assert_type

import numpy as np
import pytest
import torch

from dense_twin import Twin, assert_close
from wellposed import hippo, ptd
from wellposed.errors import ShapeError
from wellposed.systems import DenseSystem, DiagonalSystem, DPLRSystem, s4


@pytest.mark.parametrize("discrete", [False, True])
def test_it_has_the_response_of_the_perturbed_matrix(discrete: bool):
    rng = np.random.default_rng(0)
    A, B, C, D = -2 * np.eye(5) + 0.1 * rng.normal(size=(5, 5)), *(rng.normal(size=s) for s in ((5, 2), (3, 5), (3, 2)))
    A = A / 3 if discrete else A
    d = ptd(A, rel=0.1)
    diagonal = assert_type(
        DenseSystem(A, B, C, D, dt=0.1 if discrete else None).diagonalized(d),
        DiagonalSystem,
    )
    assert diagonal.pairs
    assert diagonal.is_discrete == discrete
    z = np.array([1.5, 2 + 1j, -3j])
    assert_close(diagonal(z), Twin(A + d.E.numpy(), B, C, D).transfer(z), 1e-10)


def test_transform_is_the_same():
    system = s4(9, form="dense")
    d = ptd(system.A)
    one, two = system.diagonalized(d), assert_type(d.transform(system), DiagonalSystem)
    for name in ("Lambda", "B", "C", "D"):
        assert torch.equal(getattr(one, name), getattr(two, name))
    assert one.siso


def test_a_structured_system_is_diagonalised_as_the_matrix_it_stands_for():
    system = DPLRSystem([-1.0, -2.0, -4.0], np.ones((3, 1)), B=[1.0, 2.0, 3.0], C=[1.0, 0.0, 1.0])
    A = np.diag([-1.0, -2.0, -4.0]) - np.ones((3, 3))
    d = ptd(A)
    expected = Twin(A + d.E.numpy(), np.array([[1.0], [2.0], [3.0]]), np.array([[1.0, 0.0, 1.0]]), np.zeros((1, 1)))
    assert_close(system.diagonalized(d)(2j), expected.transfer(2j)[0, 0], 1e-12)


def test_a_batch():
    A = np.stack([k * hippo.legs(4)[0].numpy() for k in (1.0, 2.0, 3.0)])
    system, d = DenseSystem(A, np.ones((3, 4)), np.ones((3, 4))), ptd(A)
    expected = Twin(A + d.E.numpy(), np.ones((3, 4, 1)), np.ones((3, 1, 4)), np.zeros((3, 1, 1)))
    assert_close(system.diagonalized(d)(1j), expected.transfer(1j)[..., 0, 0], 1e-10)
    with pytest.raises(ShapeError, match=r"differ by \d\.\de"):
        system.replace(A=A[::-1].copy()).diagonalized(d)


@pytest.mark.parametrize("size", [1e-200, 1.0, 1e150])
def test_another_matrix_is_refused_with_the_distance(size: float):
    A = size * hippo.legs(6)[0]
    system = DenseSystem(A, torch.ones(6), torch.ones(6))
    d = ptd(A)
    assert system.diagonalized(d).n == 6
    assert system.replace(A=A * (1 + 1e-8)).diagonalized(d).n == 6
    for factor, text in ((1 + 1e-3, r"1\.0e-03"), (2.0, r"5\.0e-01"), (0.0, "e")):
        with pytest.raises(ShapeError, match=f"differ by .*{text}.* of its norm"):
            system.replace(A=A * factor).diagonalized(d)


def test_no_matrix_at_all():
    zero = DenseSystem(torch.zeros(2, 2), [1.0, 1.0], [1.0, 1.0])
    assert zero.diagonalized(ptd(zero.A)).n == 2


def test_single_precision_passes():
    system = s4(8, form="dense")
    d = ptd(system.A)
    assert system.to(torch.float32).diagonalized(d).B.dtype == torch.complex64
