from __future__ import annotations

from typing import Any

import control
import numpy as np
import pytest
import scipy.signal
from hypothesis import given
from hypothesis import strategies as st

from dense_twin import Twin, assert_close
from wellposed.errors import NotRealError, ShapeError, TimeDomainError
from wellposed.systems import (
    DenseSystem,
    DiagonalSystem,
    System,
    from_control,
    from_scipy,
    s4,
    s4d,
    to_control,
    to_scipy,
)


def scipy_response(system: Any, s: np.ndarray) -> np.ndarray:
    return Twin(system.A, system.B, system.C, system.D).transfer(s)


def control_response(system: Any, s: np.ndarray) -> np.ndarray:
    return np.moveaxis(np.asarray(system(s, squeeze=False)), -1, 0)


LIBRARIES = [
    pytest.param(to_scipy, from_scipy, scipy_response, id="scipy"),
    pytest.param(to_control, from_control, control_response, id="control"),
]


@pytest.mark.parametrize(("there", "back", "response"), LIBRARIES)
@given(
    n=st.integers(1, 6),
    channels=st.sampled_from([(1, 1), (2, 3)]),
    dt=st.none() | st.floats(0.01, 1),
    seed=st.integers(0, 99),
)
def test_round_trip(there: Any, back: Any, response: Any, n: int, channels: tuple[int, int], dt: Any, seed: int):
    rng = np.random.default_rng(seed)
    p, m = channels
    A = rng.normal(size=(n, n)) / n
    twin = Twin(A, rng.normal(size=(n, m)), rng.normal(size=(p, n)), rng.normal(size=(p, m)))
    system = DenseSystem(*twin, dt=dt)
    foreign = there(system)
    assert foreign.dt == (dt if dt is not None else {to_scipy: None, to_control: 0}[there])
    for ours, theirs in zip(twin, (foreign.A, foreign.B, foreign.C, foreign.D), strict=True):
        assert np.array_equal(ours, theirs)
        assert theirs.dtype == np.float64
    s = np.array([3 + 1j, 4j, 5.0])
    assert_close(response(foreign, s), twin.transfer(s), 1e-12)
    again = back(foreign)
    assert again.is_discrete == (dt is not None)
    assert again.dt is None or again.dt.item() == dt
    assert_close(again(s), twin.transfer(s)[..., 0, 0] if (p, m) == (1, 1) else twin.transfer(s), 1e-12)


@pytest.mark.parametrize(("there", "back", "response"), LIBRARIES)
@pytest.mark.parametrize(
    "system",
    [s4(16), s4d(16), s4d(15), s4d(15, pairs=False), s4(16).discretize(0.01), s4d(16).discretize(0.01, "zoh")],
    ids=repr,
)
def test_complex_coordinates_are_handed_over_as_real_ones(there: Any, back: Any, response: Any, system: System):
    foreign = there(system)
    assert all(M.dtype == np.float64 for M in (foreign.A, foreign.B, foreign.C, foreign.D))
    assert foreign.A.shape == (system.n, system.n)
    s = np.exp(1j * np.linspace(0.1, 3, 20)) if system.is_discrete else 1j * np.logspace(-2, 3, 20)
    dense = system.to_dense()
    expected = Twin(dense.A.numpy(), dense.B.numpy(), dense.C.numpy(), dense.D.numpy()).transfer(s)
    assert_close(response(foreign, s), expected, 1e-10)
    assert_close(back(foreign)(s), expected[:, 0, 0], 1e-10)


@pytest.mark.parametrize("there", [to_scipy, to_control])
def test_a_complex_response_is_refused(there: Any):
    with pytest.raises(NotRealError, match="1 eigenvalues above the real axis, 0 below"):
        there(DiagonalSystem([-1 + 2j], [1.0], [1.0]))
    with pytest.raises(NotRealError, match=r"imaginary part reaches \d"):
        there(DenseSystem([[-1 + 2j]], [1.0], [1.0]))


@pytest.mark.parametrize("there", [to_scipy, to_control])
def test_one_system_at_a_time(there: Any):
    with pytest.raises(ShapeError, match=r"batch \(2,\)"):
        there(DenseSystem(-np.ones((2, 1, 1)), np.ones((2, 1)), np.ones((2, 1))))


def test_an_unspecified_time_step_is_refused():
    with pytest.raises(TimeDomainError, match="unspecified"):
        from_control(control.ss([[0.5]], [[1.0]], [[1.0]], [[0.0]], True))
    with pytest.raises(TimeDomainError, match="unspecified"):
        from_scipy(scipy.signal.StateSpace([[0.5]], [[1.0]], [[1.0]], [[0.0]], dt=True))


def test_transfer_functions_become_systems():
    s = np.array([1j, 2.0, 3 - 1j])
    expected = (s + 3) / (s**2 + 2 * s + 5)
    assert_close(from_scipy(scipy.signal.TransferFunction([1, 3], [1, 2, 5]))(s), expected, 1e-12)
    assert_close(from_control(control.tf([1, 3], [1, 2, 5]))(s), expected, 1e-12)


def test_time_responses_agree():
    # scipy and control step as the appendix of the paper does: y_t reads u_t through D and x_t from u_{t-1}.
    u = np.random.default_rng(0).normal(size=50)
    system = s4(8).discretize(0.05)
    y = system.simulate(u, convention="delayed").real
    assert_close(y, scipy.signal.dlsim(to_scipy(system), u)[1][:, 0], 1e-10)
    assert_close(y, control.forced_response(to_control(system), U=u).outputs, 1e-10)
