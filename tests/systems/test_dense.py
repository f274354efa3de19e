from __future__ import annotations

import dataclasses
from typing import Any

import mpmath
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from dense_twin import Twin, assert_close
from system_suite import Case, SystemSuite, cases, normal
from wellposed.errors import NotRealError
from wellposed.systems import DenseSystem


class TestDense(SystemSuite):
    def parameters(self, case: Case, rng: np.random.Generator) -> dict[str, Tensor]:
        A = normal(rng, *case.batch, case.n, case.n, real=case.real) / case.n**0.5
        rightmost = torch.linalg.eigvals(A).real.amax(-1)[..., None, None]
        return {
            "A": A - (rightmost + 0.3) * torch.eye(case.n),
            "B": normal(rng, *case.batch, case.n, case.m, real=case.real),
            "C": normal(rng, *case.batch, case.p, case.n, real=case.real),
            "D": normal(rng, *case.batch, case.p, case.m, real=case.real),
        }

    def build(self, parameters: dict[str, Tensor], dt: Any = None) -> DenseSystem:
        return DenseSystem(*(parameters[k] for k in "ABCD"), dt=dt)

    def dense(self, parameters: dict[str, Tensor]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        return parameters["A"], parameters["B"], parameters["C"], parameters["D"]

    @given(cases(), st.booleans())
    def test_a_real_system_in_complex_coordinates_is_found_to_be_real(self, case: Case, discrete: bool):
        rng = np.random.default_rng(case.seed)
        A, B, C, D = self.dense(self.parameters(dataclasses.replace(case, real=True), rng))
        V = normal(rng, case.n, case.n) + 3 * torch.eye(case.n)
        A2, B2, C2 = (t.to(V.dtype) for t in (A, B, C))
        system = DenseSystem(torch.linalg.solve(V, A2 @ V), torch.linalg.inv(V) @ B2, C2 @ V, D)
        if discrete:
            system = system.discretize(0.1)
        real = system.to_real()
        assert not any(t.is_complex() for t in (real.A, real.B, real.C, real.D))
        twin = Twin(*(t.numpy() for t in (A, B, C, D)))
        s = rng.uniform(1.5, 3, size=4) * np.exp(1j * rng.uniform(-1.5, 1.5, size=4))
        assert_close(real(s), (twin.bilinear(0.1) if discrete else twin).transfer(s), 1e-9)


def test_a_pole_is_infinite_and_its_neighbours_are_not():
    system = DenseSystem([[-1.0, 0.0], [0.0, -2.0]], [1.0, 1.0], [1.0, 1.0])
    G = system([-1.0, 0.0, -2.0])
    assert G.abs().tolist() == [float("inf"), 1.5, float("inf")]


@pytest.mark.parametrize("dt", np.logspace(-4, 1, 26))
def test_zero_order_hold_keeps_its_digits(dt: float):
    # Against mpmath: torch (norms around 0.03) and scipy (norms around 30) may be off by 1e-10 and 1e-12.
    rng = np.random.default_rng(0)
    A, B = rng.normal(size=(3, 3)) - 2 * np.eye(3), rng.normal(size=(3, 1))
    with mpmath.workdps(40):
        block = mpmath.matrix(np.block([[A, B], [np.zeros((1, 4))]]).tolist())
        E = np.array(mpmath.expm(mpmath.mpf(dt) * block).tolist(), dtype=float)
    discrete = DenseSystem(A, B, np.ones((1, 3))).discretize(dt, "zoh")
    assert_close(discrete.A, E[:3, :3], 1e-14)
    assert_close(discrete.B, E[:3, 3:], 1e-13)
    batch = DenseSystem(A[None], B[None], np.ones((1, 1, 3)))
    assert_close(batch.discretize(dt, "zoh").A, E[None, :3, :3], 1e-14)
    assert_close(batch[[0, 0]].discretize([dt, 1.0], "zoh").A[0], E[:3, :3], 1e-14)
    single = DenseSystem(A, B, np.ones((1, 3))).to(torch.float32).discretize(dt, "zoh")
    assert_close(single.A, E[:3, :3], 1e-5)


def test_conjugation_by_a_batch_of_matrices():
    rng = np.random.default_rng(0)
    twin = Twin(*(rng.normal(size=shape) for shape in ((3, 3), (3, 1), (1, 3), (1, 1))))
    V = rng.normal(size=(4, 3, 3)) + 3 * np.eye(3)
    moved = DenseSystem(*twin).conjugate(V)
    assert moved.batch_shape == (4,)
    assert_close(moved.A, np.linalg.solve(V, twin.A @ V), 1e-12)
    assert_close(moved(2j), np.broadcast_to(twin.transfer(2j), (4, 1, 1)), 1e-12)


def test_a_system_that_is_not_real_is_found_in_a_batch_whatever_its_size():
    A = np.array([[[-1 + 1j]], [[-1e12 + 0j]]])
    for B in ([[1e-8], [1e10]], [[1.0], [1.0]]):
        system = DenseSystem(A, B, np.ones((2, 1)))
        with pytest.raises(NotRealError, match="the response is not real"):
            system.to_real()
        assert system[1].to_real().siso
