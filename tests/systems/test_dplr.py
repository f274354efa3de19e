from __future__ import annotations

from typing import Any

import mpmath
import numpy as np
import pytest
import torch
from torch import Tensor

from dense_twin import Twin, assert_close
from system_suite import Case, SystemSuite, mirrored, normal
from wellposed import hippo
from wellposed.systems import DenseSystem, DPLRSystem


class TestDPLR(SystemSuite):
    def parameters(self, case: Case, rng: np.random.Generator) -> dict[str, Tensor]:
        rank, half = 1 + case.seed % 2, case.n // 2 if case.real else case.n
        rest = case.n - 2 * half if case.real else 0

        def rows(columns: int) -> Tensor:
            x = normal(rng, *case.batch, half, columns)
            return mirrored(x, normal(rng, *case.batch, rest, columns, real=True), -2) if case.real else x

        def decay(count: int) -> Tensor:
            return torch.from_numpy(rng.uniform(1, 2, size=(*case.batch, count)))

        Lambda = torch.complex(-decay(half), torch.from_numpy(rng.uniform(-5, 5, size=(*case.batch, half))))
        P, Q = rows(rank), rows(rank)
        # ||P|| ||Q|| < 1 <= -Re Lambda keeps the poles to the left of the axis; so does Q = P, whatever its norm.
        P, Q = (0.9 * t / torch.linalg.matrix_norm(t, keepdim=True) for t in (P, Q))
        return {
            "Lambda": mirrored(Lambda, -decay(rest), -1) if case.real else Lambda,
            "B": rows(case.m),
            "C": rows(case.p).mT,
            "D": normal(rng, *case.batch, case.p, case.m, real=case.real),
        } | ({"P": 2 * P} if case.seed % 3 == 0 else {"P": P, "Q": Q})

    def build(self, parameters: dict[str, Tensor], dt: Any = None) -> DPLRSystem:
        return DPLRSystem(
            parameters["Lambda"],
            parameters["P"],
            parameters.get("Q"),
            B=parameters["B"],
            C=parameters["C"],
            D=parameters["D"],
            dt=dt,
        )

    def dense(self, parameters: dict[str, Tensor]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        P = parameters["P"]
        A = torch.diag_embed(parameters["Lambda"]) - P @ parameters.get("Q", P).mH
        return A, parameters["B"], parameters["C"], parameters["D"]


def test_real_parameters_stay_real():
    rng = np.random.default_rng(0)
    Lambda, P, B, C = -rng.uniform(1, 2, size=5), rng.normal(size=(5, 1)), rng.normal(size=5), rng.normal(size=5)
    system = DPLRSystem(Lambda, P, B=B, C=C).discretize(0.1)
    twin = Twin(np.diag(Lambda) - P @ P.T, B[:, None], C[None], np.zeros((1, 1))).bilinear(0.1)
    assert isinstance(system, DPLRSystem)
    K = system.impulse_response(40)
    assert not K.is_complex()
    assert_close(K, twin.markov(40, "usual")[:, 0, 0], 1e-10)


def test_the_bilinear_rule_keeps_the_structure_and_the_zero_order_hold_does_not():
    system = DPLRSystem([-1.0, -2.0], [[1.0], [1.0]], B=[1.0, 1.0], C=[1.0, 0.0])
    assert isinstance(system.discretize(0.1), DPLRSystem)
    assert isinstance(system.discretize(0.1, "zoh"), DenseSystem)


def test_an_eigenvalue_of_the_diagonal_part_is_no_pole():
    # At s = -1 the Woodbury identity divides by zero, the transfer function does not.
    Lambda, P, B, C = np.array([-1.0, -2.0]), np.array([[1.0], [1.0]]), np.array([1.0, 1.0]), np.array([1.0, 0.5])
    system = DPLRSystem(Lambda, P, B=B, C=C)
    twin = Twin(np.diag(Lambda) - P @ P.T, B[:, None], C[None], np.zeros((1, 1)))
    s = np.array([-1.0, -2.0, 1j])
    assert_close(system(s), twin.transfer(s)[:, 0, 0], 1e-12)


def test_rank_zero_is_diagonal():
    empty = np.zeros((2, 0))
    system = DPLRSystem([-1.0, -2.0], empty, B=[1.0, 1.0], C=[1.0, 1.0])
    assert_close(system(1j), 1 / (1j + 1) + 1 / (1j + 2), 1e-14)
    step = (1 - 0.05) / (1 + 0.05), (1 - 0.1) / (1 + 0.1)
    assert_close(np.sort(system.discretize(0.1).poles().real), np.sort(step), 1e-14)


def exact(system: DPLRSystem, s: complex) -> complex:
    """``G(s)`` of one system with one channel: what cancels in the Woodbury identity is kept by 120 digits."""
    with mpmath.workdps(120):
        parts = (system.Lambda, system.P, system.Q, system.B, system.C)
        Lambda, P, Q, B, C = (mpmath.matrix(t.to(torch.complex128).tolist()) for t in parts)
        # 1e-50 beside a pole, so that nothing is divided by zero; G moves as little
        R = mpmath.diag([1 / (mpmath.mpc(s) + mpmath.mpf("1e-50") - x) for x in Lambda])
        K = mpmath.eye(P.cols) + Q.H * R * P
        return complex((C * R * B - C * R * P * mpmath.lu_solve(K, Q.H * R * B))[0])


@pytest.mark.parametrize(("dtype", "accuracy"), [(torch.float64, 1e-10), (torch.float32, 1e-4)])
@pytest.mark.parametrize(("measure", "n"), [("fout", 33), ("legt", 16), ("legs", 16), ("lagt", 9)])
def test_near_its_own_diagonal_part(measure: str, n: int, dtype: torch.dtype, accuracy: float):
    """There the two terms of the Woodbury identity are huge and cancel; the transfer function is as tame as ever."""
    Lambda, V, P, B = hippo.dplr(measure, n)
    C = torch.ones(n, dtype=torch.float64).to(V.dtype) @ V
    system = DPLRSystem(Lambda, P, B=B, C=C).to(dtype)
    k = n // 3
    pole = complex(system.Lambda[k])
    beside = [np.spacing(pole.imag) * 1j, 1e-15, 1e-12, 1e-8j, 1e-5, 1e-4j, 1e-3, 1e-2j, 0.1]
    points = torch.tensor([pole, *(pole + d for d in beside), complex(system.Lambda[0]), 1.0 + 1j]).to(system.B.dtype)
    right = np.array([exact(system, complex(s)) for s in points])
    error = np.abs(system(points).numpy() - right)
    assert (error <= accuracy * np.maximum(1, np.abs(right))).all()


def test_near_the_diagonal_part_in_batches_and_with_gradients():
    """Each system of a batch has its own modes that are near; several channels, rank 2, modes that coincide."""
    rng = np.random.default_rng(0)
    Lambda, P, Q = (normal(rng, 3, 5, *shape) for shape in ((), (2,), (2,)))
    Lambda[1, 1] = Lambda[1, 2] = Lambda[0, 3]
    B, C = normal(rng, 3, 5, 2), normal(rng, 3, 4, 5)
    s = torch.cat([Lambda[0] + 1e-13, Lambda[1], Lambda[2, :1] + 1e-3, torch.tensor([2j], dtype=torch.complex128)])
    parts = [t.requires_grad_() for t in (Lambda, P, Q, B, C)]
    G = DPLRSystem(Lambda, P, Q, B=B, C=C)(s.detach())
    A = torch.diag_embed(Lambda) - P @ Q.mH
    right = DenseSystem(A, B, C)(s.detach())
    assert_close(G.detach(), right.detach().numpy(), 1e-10)
    many = DPLRSystem(Lambda, P, Q, B=B, C=C)(s.detach().repeat(100))  # so many points are looked through by sorting
    assert_close(many[:, -len(s) :].detach(), right.detach().numpy(), 1e-10)
    weight = normal(rng, *G.shape)
    for found, wanted in zip(*(torch.autograd.grad((weight * y).real.sum(), parts) for y in (G, right)), strict=True):
        assert_close(found, wanted.resolve_conj().numpy(), 1e-8)
