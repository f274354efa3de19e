from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from torch import Tensor

from dense_twin import Twin, assert_close
from system_suite import Case, SystemSuite, cases, mirrored, normal
from wellposed.errors import NotRealError, ShapeError
from wellposed.systems import DiagonalSystem, DPLRSystem, s4d


def modes(case: Case, rng: np.random.Generator, half: int, rest: int) -> dict[str, tuple[Tensor, Tensor]]:
    """Complex modes, and real ones."""
    decay = [torch.from_numpy(-rng.uniform(0.1, 1, size=(*case.batch, k))) for k in (half, rest)]
    # Above the real axis and away from it, so that no two modes of a system are accidental conjugates.
    turn = torch.from_numpy(rng.uniform(0.5, 5, size=(*case.batch, half)))
    B = normal(rng, *case.batch, half, case.m), normal(rng, *case.batch, rest, case.m, real=True)
    C = normal(rng, *case.batch, case.p, half), normal(rng, *case.batch, case.p, rest, real=True)
    return {"Lambda": (torch.complex(decay[0], turn), decay[1]), "B": B, "C": C}


def real_where(real: Tensor, z: Tensor) -> Tensor:
    return torch.complex(z.real, torch.where(real, 0.0, z.imag))


AXES = {"Lambda": -1, "B": -2, "C": -1}


class TestDiagonal(SystemSuite):
    def parameters(self, case: Case, rng: np.random.Generator) -> dict[str, Tensor]:
        half = case.n // 2 if case.real else case.n
        drawn = modes(case, rng, half, case.n - 2 * half if case.real else 0)
        order = torch.from_numpy(rng.permutation(case.n))
        parameters = {
            key: (mirrored(*parts, AXES[key]) if case.real else parts[0]).index_select(AXES[key], order)
            for key, parts in drawn.items()
        }
        return parameters | {"D": normal(rng, *case.batch, case.p, case.m, real=case.real)}

    def build(self, parameters: dict[str, Tensor], dt: Any = None) -> DiagonalSystem:
        return DiagonalSystem(parameters["Lambda"], parameters["B"], parameters["C"], parameters["D"], dt=dt)

    def dense(self, parameters: dict[str, Tensor]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        return torch.diag_embed(parameters["Lambda"]), parameters["B"], parameters["C"], parameters["D"]

    @given(cases())
    def test_half_the_modes_are_enough_exactly_if_the_response_is_real(self, case: Case):
        case = dataclasses.replace(case, batch=())
        _, system, twin, rng = self.draw(case)
        assert isinstance(system, DiagonalSystem)
        if not case.real:
            with pytest.raises(NotRealError, match="pair"):
                system.to_pairs()
            return
        pairs = system.to_pairs()
        assert pairs.pairs
        assert (pairs.n, pairs.n_stored) == (case.n, (case.n + 1) // 2)
        s = rng.uniform(0, 3, size=4) + 1j * rng.normal(size=4)
        for same in (pairs, pairs.to_pairs(), pairs.to_full()):
            assert_close(same(s), case.channels(twin.transfer(s)), 1e-12)
        u = self.inputs(case, 11, rng)
        y = pairs.discretize(0.1).simulate(u[..., 0] if case.siso else u)
        assert not y.is_complex()
        expected, _ = twin.bilinear(0.1).simulate(u.numpy(), np.zeros(case.n), "usual")
        assert_close(y, expected[..., 0] if case.siso else expected, 1e-12)


class TestPairs(SystemSuite):
    """Stored are the complex modes of positive imaginary part and the real modes; the twin has their conjugates too."""

    takes_complex = False

    def parameters(self, case: Case, rng: np.random.Generator) -> dict[str, Tensor]:
        rest = case.n % 2 if case.seed % 2 else min(case.n, 2 + case.n % 2)
        half = (case.n - rest) // 2
        drawn = modes(case, rng, half, rest)
        order = torch.from_numpy(rng.permutation(half + rest))
        parameters = {
            key: torch.cat([parts[0], parts[1].to(parts[0].dtype)], AXES[key]).index_select(AXES[key], order)
            for key, parts in drawn.items()
        }
        return parameters | {"D": normal(rng, *case.batch, case.p, case.m, real=True)}

    def build(self, parameters: dict[str, Tensor], dt: Any = None) -> DiagonalSystem:
        p = parameters
        return DiagonalSystem(p["Lambda"], p["B"], p["C"], p["D"], dt=dt, pairs=True)

    def dense(self, parameters: dict[str, Tensor]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        p = parameters
        real = self.is_real(parameters)
        Lambda, B, C = (real_where(real[:, None] if k == "B" else real, p[k]) for k in ("Lambda", "B", "C"))
        return (
            torch.diag_embed(torch.cat([Lambda, Lambda[..., ~real].conj()], -1)),
            torch.cat([B, B[..., ~real, :].conj()], -2),
            torch.cat([C, C[..., ~real].conj()], -1),
            p["D"],
        )

    def is_real(self, parameters: dict[str, Tensor]) -> Tensor:
        return (parameters["Lambda"].imag == 0).reshape(-1, parameters["Lambda"].shape[-1])[0]

    def dense_state(self, parameters: dict[str, Tensor], state: Tensor) -> Tensor:
        return torch.cat([state, state[..., ~self.is_real(parameters)].conj()], -1)

    def stored_state(self, system: Any, case: Case, rng: np.random.Generator) -> Tensor:
        state = normal(rng, *case.batch, system.n_stored)
        return real_where(system.Lambda.imag == 0, state)

    @given(cases())
    def test_outputs_are_real(self, case: Case):
        _, system, _, rng = self.draw(case)
        discrete = system.discretize(self.step(case, rng))
        u = self.inputs(case, 5, rng)
        assert not discrete.simulate(u[..., 0] if case.siso else u).is_complex()
        assert not discrete.impulse_response(5).is_complex()


def test_complex_inputs_need_every_mode():
    system = DiagonalSystem([-1 + 2j], [1.0], [1.0], pairs=True).discretize(0.1)
    u = np.array([1.0, 1j, 2.0])
    with pytest.raises(NotRealError, match="to_full"):
        system.simulate(u)
    twin = Twin(np.diag([-1 + 2j, -1 - 2j]), np.ones((2, 1)), np.ones((1, 2)), np.zeros((1, 1))).bilinear(0.1)
    assert_close(system.to_full().simulate(u), twin.simulate(u[:, None], np.zeros(2), "usual")[0][:, 0], 1e-12)


def test_modes_that_decay_to_nothing_stay_pairs():
    # exp(-800 + 3i) underflows to 0, which looks real; the mode still counts twice.
    system = DiagonalSystem([-800 + 3j, -1 + 1j], [1 + 1j, 1.0], [1.0, 1.0], pairs=True)
    full = np.array([-800 + 3j, -1 + 1j, -800 - 3j, -1 - 1j])
    B = np.array([1 + 1j, 1, 1 - 1j, 1])[:, None]
    twin = Twin(np.diag(full), B, np.ones((1, 4)), np.zeros((1, 1))).zoh(1.0)
    discrete = system.discretize(1.0, "zoh")
    assert_close(discrete.impulse_response(6), twin.markov(6, "usual")[:, 0, 0], 1e-12)
    assert discrete.n == 4
    assert_close(discrete.to_full().impulse_response(6), twin.markov(6, "usual")[:, 0, 0], 1e-12)


def test_a_real_mode_is_read_by_its_real_part():
    # Of a mode without a partner the output is Re(c b e^(lambda t)): one real mode again, if c or b is a real vector
    # times a phase, and two real modes otherwise.
    rng = np.random.default_rng(0)
    s = np.array([1j, 0.3 + 2j])
    b, c, phase = rng.normal(size=(2, 2)), rng.normal(size=(3, 2)), np.exp(0.7j)
    complex_b, complex_c = b + 1j * rng.normal(size=(2, 2)), c + 1j * rng.normal(size=(3, 2))
    for B, C in ((complex_b, c), (b, complex_c), (complex_b, phase * c), (phase * b, complex_c), (-b, -complex_c)):
        system = DiagonalSystem([-1.0, -2 + 1j], B, C, pairs=True)
        one = np.einsum("p,m,k->kpm", C[:, 0], B[0], np.ones(2)).real / (s[:, None, None] + 1)
        pair = np.einsum("p,m,k->kpm", C[:, 1], B[1], 1 / (s + 2 - 1j))
        pair = pair + np.einsum("p,m,k->kpm", C[:, 1].conj(), B[1].conj(), 1 / (s + 2 + 1j))
        for same in (system, system.to_full(), system.to_dense(), system.to_real(), system.to_full().to_pairs()):
            assert same.n == 3
            assert_close(same(s), one + pair, 1e-13)
    system = DiagonalSystem([-1.0, -2 + 1j], complex_b, complex_c, pairs=True)
    with pytest.raises(NotRealError, match=r"reaches \d\.\de"):
        system.to_full()


def test_gradients_pass_through_pairing():
    Lambda = torch.tensor([-1 + 2j, -0.5 + 0j, -1 - 2j], dtype=torch.complex128, requires_grad=True)
    pairs = DiagonalSystem(Lambda, [1.0, 1.0, 1.0], [1.0, 1.0, 1.0]).to_pairs()
    (gradient,) = torch.autograd.grad(pairs(0.0).real.sum(), Lambda)
    # G(0) = 2 Re(-1/lambda_1) - 1/lambda_2: only what is stored carries a gradient.
    assert_close(gradient, np.array([2 / np.conj(-1 + 2j) ** 2, 1 / 0.25, 0]), 1e-14)


def test_repeated_pairs_pair_up():
    # Blocks of equal HiPPO matrices, as in S5, have every eigenvalue many times.
    Lambda = np.array([-1 + 2j, -1 - 2j] * 3 + [-0.5, -0.5])
    rng = np.random.default_rng(0)
    b, c = rng.normal(size=(2, 3)) + 1j * rng.normal(size=(2, 3))
    B = np.append(np.stack([b, b.conj()], 1).reshape(-1), [1.0, 2.0])
    C = np.append(np.stack([c, c.conj()], 1).reshape(-1), [1.0, 1.0])
    system = DiagonalSystem(Lambda, B, C)
    s = np.array([1j, 0.5 + 2j, 3.0])
    expected = (C * B / (s[:, None] - Lambda)).sum(1)
    assert system.to_pairs().n_stored == 5
    assert_close(system.to_pairs()(s), expected, 1e-13)
    assert system.to_real().n == 8
    assert_close(system.to_real()(s), expected, 1e-13)


def test_small_steps_keep_their_digits():
    # (exp(z) - 1)/z cancels for small z unless it is done with care.
    for z in (1e-12, 1e-6, 0.0099, 0.0101, 0.5):
        system = DiagonalSystem([-1.0 + 1j], [1.0], [1.0]).discretize(z, "zoh")
        w = z * (-1 + 1j)
        expected = z * sum(w**k / np.prod(np.arange(1.0, k + 2)) for k in range(30))
        assert abs(complex(system.B[0, 0]) - expected) <= 4e-16 * abs(expected)


def test_integrators_have_finite_gradients():
    Lambda = torch.zeros(1, dtype=torch.complex128, requires_grad=True)
    system = DiagonalSystem(Lambda, [1.0], [1.0]).discretize(0.5, "zoh")
    y = system.simulate(torch.ones(4, dtype=torch.float64))
    assert_close(y, 0.5 * np.arange(1, 5), 1e-15)
    (gradient,) = torch.autograd.grad(y.real.sum(), Lambda)
    # d/dlambda of sum_t integral_0^t e^(lambda tau) dtau at 0 is sum_t t^2/2
    assert gradient.item() == pytest.approx(sum((0.5 * t) ** 2 / 2 for t in range(1, 5)))


def test_batches_that_cannot_be_written_out_say_so():
    Lambda = torch.tensor([[-1 + 1j, -1 + 0j], [-1 + 0j, -1 + 1j]])
    system = DiagonalSystem(Lambda, torch.ones(2, 2), torch.ones(2, 2), pairs=True)
    assert system.n == 3
    with pytest.raises(ShapeError, match="different places"):
        system.to_full()
    Lambda = torch.tensor([[-1 + 1j, -1 + 2j], [-1 + 0j, -1 + 1j]])
    with pytest.raises(ShapeError, match="3 to 4 states"):
        _ = DiagonalSystem(Lambda, torch.ones(2, 2), torch.ones(2, 2), pairs=True).n


def test_slow_modes_beside_fast_ones_stay_complex():
    """Pairs are judged by their own size: in float32 the slow modes of a wide spectrum must not pass for real."""
    system = s4d(128)
    w = torch.logspace(-2, 5, 500, dtype=torch.float64)
    G = system.frequency_response(w)
    real = system.to(torch.float32).to_real().frequency_response(w)
    assert (real - G).abs().max() <= 1e-4 * G.abs().max()  # float32
    assert s4d(32, pairs=False).to(torch.float32).to_pairs().n == 32
    with pytest.raises(NotRealError, match="1 eigenvalues above"):
        DiagonalSystem([-1e14, -1e-3 + 1e-3j], [1.0, 1.0], [1.0, 1e-3]).to_pairs()


def test_a_pole_is_infinite_in_pair_storage_too():
    system = s4d(5)
    assert system(system.poles()).isinf().all()


@pytest.mark.parametrize("form", ["pairs", "full", "dplr"])
def test_batches_become_real_together(form: str):
    """Each system has its pairs in an order of its own; the responses are those of each alone."""
    rng = np.random.default_rng(0)
    upper = rng.normal(size=(2, 3, 2)) + 1j * rng.normal(size=(2, 3, 2))
    real = rng.normal(size=(2, 3, 1))
    b, c = (rng.normal(size=(2, 3, 2)) + 1j * rng.normal(size=(2, 3, 2)) for _ in range(2))
    parts = [np.concatenate([t, t.conj(), real], axis=-1) for t in (upper, b, c)]
    order = np.argsort(rng.normal(size=(2, 3, 5)), axis=-1)
    Lambda, B, C = (np.take_along_axis(t, order, axis=-1) for t in parts)
    system = {
        "full": lambda: DiagonalSystem(Lambda, B, C),
        "pairs": lambda: DiagonalSystem(upper, b, c, pairs=True),
        "dplr": lambda: DPLRSystem(Lambda, B[..., None], B=B, C=C),
    }[form]()
    found = system.to_real()
    assert not found.A.is_complex()
    assert (found.n, tuple(found.batch_shape)) == (system.n, (2, 3))
    s = np.array([0.3 + 1j, -2j, 5.0])
    assert_close(found(s), system(s).resolve_conj().numpy(), 1e-12)


def test_a_real_mode_with_a_small_input_and_a_large_output_counts():
    # Re(C B) of the second mode needs two states; its B is 1e-18 of the first one's, and its C as much larger.
    B, C = np.array([[1e10, 1e10], [1e-8, 1e-8j]]), np.array([[1e-10, 1e8], [1e-10j, 1e8j]])
    with pytest.raises(NotRealError, match="has one mode"):
        DiagonalSystem(np.array([-1.0 + 0j, -2.0]), B, C, pairs=True).to_full()
