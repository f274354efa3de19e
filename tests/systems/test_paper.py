"""The paper's own numbers, and where it has to be corrected."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dense_twin import Twin, assert_close
from legs_reference import legs_numpy, lemma1_numpy
from wellposed import hippo
from wellposed.linalg import eig_shifted_skew
from wellposed.systems import DenseSystem, DiagonalSystem, DPLRSystem, closed_forms, s4, s4d, spikes


def twins(n: int, C: np.ndarray, D: float = 0.0) -> tuple[Twin, Twin]:
    """(A_H, B_H, C, D) and (A_perp, B_H / 2, C, D), from the equations of the paper."""
    A, A_perp, B = legs_numpy(n)
    return Twin(A, B[:, None], C, np.full((len(C), 1), D)), Twin(A_perp, B[:, None] / 2, C, np.full((len(C), 1), D))


@pytest.mark.parametrize("n", [1, 2, 31, 64])
def test_the_rank_one_split_has_no_half(n: int):
    A, B = (t.numpy() for t in hippo.legs(n))
    A_perp = hippo.split("legs", n).N.numpy()
    assert_close(A_perp - np.outer(B, B), A, 1e-15)
    assert n == 1 or np.abs(A_perp - np.outer(B, B) / 2 - A).max() > 0.1  # as printed
    assert_close(A_perp @ A_perp.T, A_perp.T @ A_perp, 1e-12)
    assert torch.equal(eig_shifted_skew(torch.from_numpy(A_perp))[0].real, torch.full((n,), -0.5, dtype=torch.float64))


def test_lemma_one_has_its_sign_flipped():
    s = 1j * np.logspace(-1, 3, 50)
    one, two = (twin.transfer(s)[:, 0, 0] for twin in twins(32, np.eye(32)[:1]))
    printed = lemma1_numpy(s, 32, 1)
    assert np.abs(printed - (two - one)).max() < 1e-13
    assert np.abs(printed - closed_forms.G_difference(s, 32).numpy()).max() < 1e-13


def test_the_last_spike_and_its_warped_twin():
    last = spikes(32)[-1]
    assert f"{last.frequency:.3f}" == "325.426"
    assert f"{last.height:.4f}" == "0.4505"
    assert last.frequency == pytest.approx(np.linalg.eigvals(legs_numpy(32)[1]).imag.max(), abs=1e-3)
    assert last.frequency == pytest.approx(32**2 / math.pi, rel=2e-3)
    dt = 1e-3
    assert f"{2 / dt * math.atan(last.frequency * dt / 2):.1f}" == "322.6"
    u = torch.cos(322.5 * dt * torch.arange(1001, dtype=torch.float64))
    peaks = [sys.discretize(dt).simulate(u, convention="delayed").abs().max().item() for sys in (s4d(32), s4(32))]
    assert [f"{peak:.4f}" for peak in peaks] == ["0.1775", "0.0025"]


@pytest.mark.parametrize(("n", "square"), [(8, "2.75"), (32, "3.18"), (128, "3.42"), (512, "3.57")])
def test_the_resolvent_bound_holds_with_room(n: int, square: str):
    def norm_squared(omega: float) -> float:
        return torch.linalg.matrix_norm(closed_forms.resolvent(1j * omega, n), 2).item() ** 2

    at_zero = norm_squared(0)
    assert f"{at_zero:.2f}" == square
    assert at_zero == pytest.approx(np.linalg.norm(np.linalg.inv(legs_numpy(n)[0]), 2) ** 2, rel=1e-9)
    assert at_zero < 2 * math.log(n) + 4
    for omega in (0.01, 0.1, 0.5, 1.0, 3.0, n / 4, n, n**2 / math.pi):
        assert norm_squared(omega) < at_zero


@pytest.mark.parametrize(
    ("n", "exponential", "impulse"),
    [
        (3, "3.880", "0.00986"),
        (8, "1.392", "0.01100"),
        (15, "0.739", "0.01113"),
        (32, "0.340", "0.01117"),
        (75, "0.144", "0.01116"),
    ],
)
def test_convergence_on_smooth_inputs_only(n: int, exponential: str, impulse: str):
    dt, steps = 1e-3, 10_000
    inputs = torch.zeros(2, steps, dtype=torch.float64)
    inputs[0] = torch.exp(-dt * torch.arange(steps))
    inputs[1, 0] = 1
    one, two = (sys.discretize(dt).simulate(inputs, convention="delayed") for sys in (s4(n), s4d(n)))
    distance = torch.linalg.vector_norm(one - two, dim=1).tolist()
    assert f"{distance[0]:.3f}" == exponential
    assert f"{distance[1]:.5f}" == impulse


@pytest.mark.parametrize("n", [1, 2, 7, 64])
def test_s4_is_one_system_in_three_coordinates(n: int):
    forms = [s4(n), s4(n, form="dense")]
    _, V = eig_shifted_skew(hippo.split("legs", n).N)
    forms.append(forms[1].conjugate(V))
    assert [type(form) for form in forms] == [DPLRSystem, DenseSystem, DenseSystem]
    s = np.concatenate([1j * np.logspace(-2, 4, 60), [1 + 1j, 5.0]])
    expected = twins(n, np.eye(n)[:1])[0].transfer(s)[:, 0, 0]
    u = np.random.default_rng(0).normal(size=200)
    discrete = twins(n, np.eye(n)[:1])[0].bilinear(0.01)
    y, _ = discrete.simulate(u[:, None], np.zeros(n), "usual")
    for form in forms:
        assert_close(form(s), expected, 1e-9)
        assert_close(form.discretize(0.01).simulate(u), y[:, 0], 1e-9)


@given(st.integers(1, 20), st.data())
def test_any_row_reads_the_state(n: int, data: st.DataObject):
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    rows = data.draw(st.integers(1, 3))
    C: Any = rng.normal(size=(rows, n)) + (1j * rng.normal(size=(rows, n)) if data.draw(st.booleans()) else 0)
    D = rng.normal()
    s = np.array([0.3, 1j, 20j, 1 - 2j])
    one, two = (twin.transfer(s) for twin in twins(n, C, D))
    single = rows == 1 and data.draw(st.booleans())
    given_C = C[0] if single else C
    given_D = D if single else np.full((rows, 1), D)
    for system, expected in (
        (s4(n, C=given_C, D=given_D), one),
        (s4(n, C=given_C, D=given_D, form="dense"), one),
        (s4d(n, C=given_C, D=given_D), two),
        (s4d(n, C=given_C, D=given_D, pairs=False), two),
    ):
        assert_close(system(s), expected[..., 0, 0] if single else expected, 1e-11)
    l = data.draw(st.integers(1, n))
    one, two = (twin.transfer(s)[:, 0, 0] for twin in twins(n, np.eye(n)[l - 1 : l]))
    assert_close(s4(n, l=l)(s), one, 1e-11)
    assert_close(s4d(n, l=l)(s), two, 1e-11)


@pytest.mark.parametrize("n", [1, 2, 31, 32])
def test_s4d_stores_half_of_its_modes(n: int):
    system = s4d(n)
    assert isinstance(system, DiagonalSystem)
    assert (system.n, system.n_stored) == (n, (n + 1) // 2)
    assert torch.equal(system.poles().real, torch.full((n,), -0.5, dtype=torch.float64))
    assert not system.discretize(0.01).impulse_response(10).is_complex()
