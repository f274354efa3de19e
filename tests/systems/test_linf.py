from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import scipy.linalg
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dense_twin import Twin
from legs_reference import legs_numpy
from wellposed import hippo
from wellposed.errors import ArgumentError, ConvergenceError, NotFiniteError, ShapeError, TimeDomainError, UnstableError
from wellposed.linalg import eig_shifted_skew
from wellposed.systems import DenseSystem, DiagonalSystem, DPLRSystem, linf_distance, s4, s4d
from wellposed.systems._linf_search import Search


def difference(one: Twin, two: Twin) -> Twin:
    """The system whose transfer function is ``G1 - G2``."""
    return Twin(
        np.asarray(scipy.linalg.block_diag(one.A, two.A)),
        np.concatenate([one.B, two.B]),
        np.concatenate([one.C, -two.C], axis=1),
        one.D - two.D,
    )


def sizes(system: Twin, s: Any) -> np.ndarray:
    return np.linalg.norm(system.transfer(s), 2, axis=(-2, -1))


def hinf_norm(system: Twin, accuracy: float = 1e-6) -> tuple[float, float]:
    """Lower and upper bound by the level sets of Boyd, Balakrishnan, Bruinsma and Steinbuch.

    ``gamma`` is a singular value of ``G(i w)`` for some ``w`` exactly if the Hamiltonian matrix below has the
    eigenvalue ``i w``. If it has none, ``gamma`` is above the norm; otherwise the midpoints of the crossings
    lead to a better lower bound.
    """
    A, B, C, D = system
    poles = np.linalg.eigvals(A)
    lower = max(sizes(system, 1j * np.append(poles.imag, 0)).max(), np.linalg.norm(D, 2))
    for _ in range(60):
        gamma = lower * (1 + 2 * accuracy)
        R = np.linalg.inv(gamma**2 * np.eye(D.shape[1]) - D.conj().T @ D)
        F = A + B @ R @ D.conj().T @ C
        H = np.block(
            [
                [F, B @ R @ B.conj().T],
                [-C.conj().T @ (np.eye(D.shape[0]) + D @ R @ D.conj().T) @ C, -F.conj().T],
            ]
        )
        eigenvalues = np.linalg.eigvals(H)
        # Two crossings as close as 2 * accuracy allows are known to sqrt(eps): 1e-7 tells them from a miss.
        crossings = np.sort(eigenvalues.imag[np.abs(eigenvalues.real) < 1e-7 * np.abs(eigenvalues).max()])
        if not len(crossings):
            return lower, gamma
        better = sizes(system, 1j * (crossings[1:] + crossings[:-1]) / 2).max(initial=0)
        if better <= lower:
            return lower, gamma
        lower = better
    raise AssertionError("the level sets did not converge")


def random_stable(rng: np.random.Generator, n: int, m: int, p: int, complex_: bool = False) -> Twin:
    def normal(*shape: int) -> np.ndarray:
        return rng.normal(size=shape) + (1j * rng.normal(size=shape) if complex_ else 0)

    A = normal(n, n)
    A = A - (np.linalg.eigvals(A).real.max() + rng.uniform(0.05, 1)) * np.eye(n)
    return Twin(A, normal(n, m), normal(p, n), 0.3 * normal(p, m))


@st.composite
def pairs_of_systems(draw: st.DrawFn) -> tuple[Twin, Twin]:
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    m, p = draw(st.sampled_from([(1, 1), (1, 1), (2, 2), (1, 3), (3, 2), (3, 1)]))
    is_complex = draw(st.booleans())
    one, two = (random_stable(rng, draw(st.integers(1, 6)), m, p, is_complex) for _ in range(2))
    return one, Twin(two.A, two.B, two.C, one.D if draw(st.booleans()) else two.D)


@pytest.mark.slow
@settings(max_examples=20)
@given(pairs_of_systems())
def test_continuous_systems_against_level_sets(pair: tuple[Twin, Twin]):
    found = linf_distance(*(DenseSystem(*twin) for twin in pair))
    system = difference(*pair)
    lower, upper = hinf_norm(system)
    assert lower * (1 - 1e-9) <= found.value <= upper
    assert found.value <= found.upper <= found.value * (1 + 1e-8) + 1e-12
    grid = np.concatenate([np.linspace(-20, 20, 2001), np.logspace(-3, 4, 500), -np.logspace(-3, 4, 500)])
    assert sizes(system, 1j * grid).max() <= found.upper * (1 + 1e-12)
    if math.isfinite(found.frequency):
        assert sizes(system, 1j * found.frequency) == pytest.approx(found.value, rel=1e-9)
    else:
        assert np.linalg.norm(system.D, 2) == pytest.approx(found.value, rel=1e-12)
    assert float(found) == found.value


@pytest.mark.slow
@settings(max_examples=40)
@given(pairs_of_systems(), st.floats(0.05, 2), st.sampled_from(["bilinear", "zoh"]))
def test_discrete_systems_against_a_grid(pair: tuple[Twin, Twin], dt: float, method: Any):
    one, two = (DenseSystem(*twin).discretize(dt, method) for twin in pair)
    found = linf_distance(one, two)
    system = difference(*(twin.discretize(dt, method) for twin in pair))
    angles = np.linspace(-np.pi, np.pi, 20_001)
    on_grid = sizes(system, np.exp(1j * angles))
    assert on_grid.max() <= found.upper * (1 + 1e-12)
    assert abs(found.frequency * dt) <= np.pi + 1e-9
    assert sizes(system, np.exp(1j * found.frequency * dt)) == pytest.approx(found.value, rel=1e-9)
    # Between two grid points a norm cannot grow by more than its slope, here at most the one seen between others.
    assert found.value <= on_grid.max() + np.abs(np.diff(on_grid)).max()


def dense(twin: Twin, dt: Any) -> DenseSystem:
    return DenseSystem(*twin, dt=dt)


def low_rank(twin: Twin, dt: Any) -> DPLRSystem:
    n = len(twin.A)
    Lambda = np.linspace(-50, -5, n)  # far from the poles, which are the work of the other part
    return DPLRSystem(Lambda, np.diag(Lambda) - twin.A, np.eye(n), B=twin.B, C=twin.C, D=twin.D, dt=dt)


def diagonal(twin: Twin, dt: Any) -> DiagonalSystem:
    Lambda, V = np.linalg.eig(twin.A)
    return DiagonalSystem(Lambda, np.linalg.solve(V, twin.B), twin.C @ V, twin.D, dt=dt)


@pytest.mark.slow
@pytest.mark.parametrize("structure", [dense, low_rank, diagonal])
@pytest.mark.parametrize("discrete", [False, True])
@given(pair=pairs_of_systems(), seed=st.integers(0, 2**32 - 1))
def test_the_bound_holds_over_every_cell(structure: Any, discrete: bool, pair: tuple[Twin, Twin], seed: int):
    # What the certificate rests on: no sample inside a cell exceeds the bound computed at its center.
    rng = np.random.default_rng(seed)
    twin, dt = (pair[0].zoh(0.3), 0.3) if discrete else (pair[0], None)
    p, m = twin.D.shape
    silent = DiagonalSystem([0.0 if discrete else -1e3], np.zeros((1, m)), np.zeros((p, 1)), dt=dt)
    center, half = rng.uniform(-3, 3, size=20), 10 ** rng.uniform(-3, 0.5, size=20)
    search = Search(structure(twin, dt), silent, 1e-8, 1000)
    bound = search.look(torch.from_numpy(center), torch.from_numpy(half)).numpy() * search.units.response(1.0)
    inside = center[:, None] + half[:, None] * np.linspace(-1, 1, 101)
    samples = sizes(twin, np.exp(1j * inside) if discrete else 1j * inside)
    # The change to eigenvectors, for the diagonal system, costs digits.
    assert np.all(samples.max(axis=1) <= bound * (1 + 1e-12 * np.linalg.cond(np.linalg.eig(twin.A)[1])))


@pytest.mark.parametrize(("n", "value"), [(16, 0.451561), (32, 0.450517), (64, 0.450248), (128, 0.450181)])
def test_s4_and_s4d_stay_apart(n: int, value: float):
    found = linf_distance(s4(n), s4d(n))
    assert round(found.value, 6) == value
    assert found.value <= found.upper <= found.value * (1 + 2e-8)


@pytest.mark.slow
def test_the_needle_at_a_thousand_states():
    # One spike of width 1 on an axis that matters up to 10^6.
    found = linf_distance(s4(1000), s4d(1000))
    assert found.frequency == pytest.approx(318309.36, abs=0.01)
    assert round(found.value, 4) == 0.4502


@pytest.mark.parametrize("n", [5, 16])
def test_every_form_gives_the_same_distance(n: int):
    A, A_perp, B = legs_numpy(n)
    e1 = np.eye(n)[:1]
    lower, upper = hinf_norm(
        difference(Twin(A, B[:, None], e1, np.zeros((1, 1))), Twin(A_perp, B[:, None] / 2, e1, np.zeros((1, 1))))
    )
    diagonal = s4d(n)
    for one in (s4(n), s4(n, form="dense")):
        for two in (diagonal, diagonal.to_full(), diagonal.to_dense(), diagonal.to_real()):
            for pair in ((one, two), (two, one)):
                assert lower * (1 - 1e-9) <= linf_distance(*pair).value <= upper


def test_attained_at_infinity():
    # |1 - 0.01 / (s + 0.5)| is smallest at s = 0 and grows to 1.
    one = DenseSystem([[-0.5]], [1.0], [-0.01], 1.0)
    nothing = DenseSystem([[-1.0]], [0.0], [1.0])
    found = linf_distance(one, nothing)
    assert found.value == 1
    assert found.frequency == math.inf
    assert 1 <= found.upper <= 1 + 2e-8
    assert "omega = inf" in str(found)


@pytest.mark.parametrize("system", [s4(16), s4d(16), s4(16, form="dense"), s4d(16).discretize(0.01)])
def test_a_system_is_close_to_itself(system: Any):
    for twin in (system, system.to_dense(), system.to_real()):
        found = linf_distance(system, twin)
        assert found.value <= found.upper < 1e-12


def test_systems_without_a_response_are_close_to_nothing():
    # Unobservable and uncontrollable: the response is 0, the matrices are not.
    hidden = DenseSystem([[-1.0, 0.0], [0.0, -2.0]], [1.0, 0.0], [0.0, 1.0])
    silent = DiagonalSystem([-1.0], [0.0], [1.0])
    assert linf_distance(hidden, silent).upper < 1e-12
    assert linf_distance(hidden, hidden).upper < 1e-12


def test_rank_zero():
    found = linf_distance(
        DPLRSystem([-1.0, -2.0], np.zeros((2, 0)), B=[1.0, 1.0], C=[1.0, 1.0]), DiagonalSystem([-1.0], [0.0], [1.0])
    )
    assert found.value == pytest.approx(1.5, rel=1e-12)  # 1/(s + 1) + 1/(s + 2) at s = 0


def test_unstable_systems_are_compared_on_request():
    one, two = DenseSystem([[0.5]], [1.0], [1.0]), DenseSystem([[-0.5]], [1.0], [1.0])
    with pytest.raises(UnstableError, match=r"sys1 is not stable.*= 0\.5;"):
        linf_distance(one, two)
    # 1/(s - 1/2) - 1/(s + 1/2) = 1/(s^2 - 1/4)
    assert linf_distance(one, two, require_stable=False).value == pytest.approx(4, rel=1e-9)
    with pytest.raises(UnstableError, match=r"sys2 is not stable.*= 2;"):
        linf_distance(DenseSystem([[0.5]], [1.0], [1.0], dt=1), DenseSystem([[2.0]], [1.0], [1.0], dt=1))


@pytest.mark.parametrize(
    "A", [[[0.0]], [[0.0, 2.0], [-2.0, 0.0]], [[-1.0, 0.0], [0.0, 0.0]]], ids=["integrator", "oscillator", "mixed"]
)
def test_a_pole_on_the_axis_has_no_finite_distance(A: Any):
    ones = np.ones(len(A))
    one, two = DenseSystem(A, ones, ones), DenseSystem([[-0.5]], [1.0], [1.0])
    with pytest.raises(UnstableError, match="sys1 is not stable"):
        linf_distance(one, two)
    with pytest.raises(UnstableError, match="infinite"):
        linf_distance(one, two, require_stable=False)


def test_a_pole_on_the_circle_has_no_finite_distance():
    one = DenseSystem([[0.6, 0.8], [-0.8, 0.6]], [1.0, 1.0], [1.0, 1.0], dt=1.0)
    two = DenseSystem([[0.5]], [1.0], [1.0], dt=1.0)
    with pytest.raises(UnstableError, match=r"sys1 has a pole on the unit circle.*0\.6"):
        linf_distance(one, two, require_stable=False)


def test_a_pole_too_close_to_the_axis_says_where():
    with pytest.raises(UnstableError, match="near 3:"):
        linf_distance(DiagonalSystem([-1e-20 + 3j], [1.0], [1.0]), DiagonalSystem([-1.0], [1.0], [1.0]))


def test_slow_poles_are_no_obstacle():
    # 1/(s + 1e-12) has its peak of 1e12 in a cell of that size around 0.
    found = linf_distance(DiagonalSystem([-1e-12, -1e3], [1.0, 1.0], [1.0, 1.0]), DiagonalSystem([-1.0], [1.0], [1.0]))
    assert found.value == pytest.approx(1e12 + 1e-3 - 1, rel=1e-9)


@pytest.mark.parametrize("distance", [1e-9, 1e-12, 1e-13, 1e-14])
@pytest.mark.parametrize("structure", ["diagonal", "dense"])
def test_poles_close_to_the_axis(structure: str, distance: float):
    """1/(s - 3i + d) has the peak 1/d, and 1/(s + 1) changes it by less than 1; few floats lie under it."""
    pole = -distance + 3j
    one = DiagonalSystem([pole], [1.0], [1.0]) if structure == "diagonal" else DenseSystem([[pole]], [1.0], [1.0])
    found = linf_distance(one, DiagonalSystem([-1.0], [1.0], [1.0]))
    assert found.value == pytest.approx(1 / -complex(pole).real, rel=1e-6)
    assert found.frequency == pytest.approx(3)
    assert found.value <= found.upper <= found.value * (1 + 1e-8 + (1e-15 / distance) ** 2)


@pytest.mark.parametrize("scale", [1e-300, 1e-150, 1e-20, 1e30, 1e150, 1e290])
@pytest.mark.parametrize("form", ["dplr", "dense"])
def test_frequencies_of_any_scale(form: Any, scale: float):
    """Time in other units changes frequencies, and nothing else."""
    usual = linf_distance(s4(8), s4d(8))
    full, normal = s4(8, form=form), s4d(8)
    root = scale**0.5
    if isinstance(full, DPLRSystem):
        full = DPLRSystem(scale * full.Lambda, root * full.P, B=root * full.B[:, 0], C=root * full.C[0])
    else:
        full = DenseSystem(scale * full.A, scale * full.B[:, 0], full.C[0])
    found = linf_distance(full, normal.replace(Lambda=scale * normal.Lambda, B=scale * normal.B))
    assert found.value == pytest.approx(usual.value, rel=1e-7)
    assert found.frequency == pytest.approx(scale * usual.frequency, rel=1e-6)
    assert found.value <= found.upper <= found.value * (1 + 2e-8)


@pytest.mark.parametrize("size", [1e-300, 1e300])
def test_responses_of_any_size(size: float):
    # 1/(s + 1) twice over, in four channels: 2 at s = 0.
    silent = DenseSystem([[-1.0]], [[0.0, 0.0]], [[0.0], [0.0]])
    for b, c in ((size, 1.0), (1.0, size), (size**0.5, size**0.5)):
        found = linf_distance(DenseSystem([[-1.0]], [[b, b]], [[c], [c]]), silent)
        assert found.value == pytest.approx(2 * size, rel=1e-7)
        assert found.upper <= found.value * (1 + 2e-8)
    with pytest.raises(NotFiniteError, match="beyond the largest float"):
        linf_distance(DenseSystem([[-1.0]], [1e200], [1e200]), DenseSystem([[-1.0]], [0.0], [0.0]))


def test_a_budget_too_small_is_an_error():
    with pytest.raises(ConvergenceError, match=r"after \d+ evaluations.*above 0\.45"):
        linf_distance(s4(64), s4d(64), max_evaluations=100)


SISO = DenseSystem([[-1.0]], [1.0], [1.0])


@pytest.mark.parametrize(
    ("two", "error", "message"),
    [
        (SISO.discretize(0.1), TimeDomainError, "sys1 is continuous and sys2 is discrete"),
        (DenseSystem([[[-1.0]], [[-2.0]]], np.ones((2, 1)), np.ones((2, 1))), ShapeError, r"\(\(\), \(2,\)\)"),
        (DenseSystem([[-1.0]], [[1.0, 2.0]], [[1.0]]), ShapeError, "1 outputs and 1 inputs, sys2 1 and 2"),
    ],
)
def test_pairs_that_do_not_fit(two: Any, error: type[Exception], message: str):
    with pytest.raises(error, match=message):
        linf_distance(SISO, two)


def test_different_time_steps():
    with pytest.raises(TimeDomainError, match=r"0\.1 and 0\.2"):
        linf_distance(SISO.discretize(0.1), SISO.discretize(0.2))


@pytest.mark.parametrize("rtol", [0.0, 1e-15, 1.0])
def test_impossible_accuracy(rtol: float):
    with pytest.raises(ArgumentError, match=f"got {rtol:g}"):
        linf_distance(SISO, SISO, rtol=rtol)


@pytest.mark.parametrize("measure", ["legt", "fout"])
def test_a_diagonal_part_on_the_axis_is_no_pole_of_the_system(measure: str):
    n = 7
    N, P = hippo.split(measure, n)
    A, B = hippo.MEASURES[measure](n)
    Lambda, V = eig_shifted_skew(N)
    C = torch.eye(n, dtype=torch.float64)[0]
    dplr = DPLRSystem(Lambda, V.mH @ P.to(V.dtype), B=V.mH @ B.to(V.dtype), C=C.to(V.dtype) @ V)
    zero = DenseSystem([[-1.0]], [0.0], [0.0])
    assert linf_distance(dplr, zero).value == pytest.approx(linf_distance(DenseSystem(A, B, C), zero).value, rel=1e-7)
    step, still = dplr.discretize(0.1), DenseSystem([[0.5]], [0.0], [0.0], dt=0.1)  # there it lies on the unit circle
    dense = DenseSystem(A, B, C).discretize(0.1)
    assert linf_distance(step, still).value == pytest.approx(linf_distance(dense, still).value, rel=1e-7)


def test_a_diagonal_part_that_a_large_low_rank_part_cancels():
    # In 1 + |p|^2 / (s - lambda) nine digits would be lost beside lambda, and a million cells made.
    P = np.array([[300.0], [500.0], [400.0]])
    dplr = DPLRSystem([-1e-3 + 7j, -1e-3 - 7j, -2e-3], P, B=[1.0, 1.0, 1.0], C=[1.0, -1.0, 2.0])
    found = linf_distance(dplr, dplr.to_dense(), max_evaluations=10_000)
    size = linf_distance(dplr, DenseSystem([[-1.0]], [0.0], [0.0]), max_evaluations=10_000).value
    assert found.upper <= 1e-12 * size


def test_a_system_in_training_can_be_compared():
    A = -torch.eye(2, dtype=torch.float64)
    system = DenseSystem(A.requires_grad_(), [1.0, 0.0], [1.0, 0.0])
    assert linf_distance(system, DenseSystem([[-2.0]], [1.0], [1.0])).value == pytest.approx(0.5, rel=1e-7)
