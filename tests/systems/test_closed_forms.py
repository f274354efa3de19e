from __future__ import annotations

from typing import Any

import mpmath
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dense_twin import assert_close
from legs_reference import Lemma1, legs_numpy, lemma1_numpy, relative_error
from subprocesses import run_python
from wellposed.hippo import legs, split
from wellposed.systems import spikes
from wellposed.systems.closed_forms import G_DPLR, G_Diag, G_difference, resolvent

N = 10**4
ROWS = (1, 2, 7, 500)


def errors(s: complex, n: int, l: int, reference: Lemma1) -> list[float]:
    """Relative errors of the three functions; a value below the smallest number of float64 may come out as 0."""
    pairs = ((G_DPLR, reference.q), (G_difference, reference.difference), (G_Diag, reference.diagonal))
    found = [(complex(f(s, n, l=l)), g(l)) for f, g in pairs]
    return [relative_error(a, e) if abs(e) > 1e-300 else abs(a) / 1e-300 for a, e in found]


@pytest.mark.parametrize(
    "omega", [pytest.param(w, marks=pytest.mark.slow if k % 2 else ()) for k, w in enumerate(np.logspace(-3, 9, 25))]
)
def test_on_the_imaginary_axis(omega: float):
    s = complex(0, omega)
    reference = Lemma1(s, N)
    for l in ROWS:
        assert max(errors(s, N, l, reference)) < 1e-10
        for f in (G_DPLR, G_Diag, G_difference):  # real systems
            assert complex(f(-s, N, l=l)) == complex(f(s, N, l=l)).conjugate()


@pytest.mark.slow
@pytest.mark.parametrize("l", [1, 500])
def test_inside_the_spikes(l: int):
    # 1 + a is about 1e-7 there, so the last digits of a, at 1e-15, are worth 1e-8.
    found = spikes(N, l, last=3)
    for spike in found:
        for offset in (-0.5, -0.25, 0.0, 0.1, 0.5):
            s = complex(0, spike.frequency + offset * spike.width)
            assert max(errors(s, N, l, Lemma1(s, N))) < 1e-6
        top = Lemma1(complex(0, spike.frequency), N)
        assert float(abs(top.difference(l))) == pytest.approx(spike.height, rel=1e-6)


RIGHT = [1 + 1j, 2 - 300j, 1e3 + 5j, 1e6 - 3j, 5.0, 12.5, 2e4, 1e-9 + 1j]
LEFT = [-3 + 2j, -0.5 + 0.1j, -1 - 300j, -1e7 + 1j, -5.5, -0.3, -2e4, -1e-9 + 1j]


@pytest.mark.parametrize(
    "s", [pytest.param(s, marks=pytest.mark.slow if k % 2 else ()) for k, s in enumerate(RIGHT + LEFT)]
)
def test_off_the_axis(s: complex):
    reference = Lemma1(s, N)
    for l in ROWS:
        # Next to the axis the product has 10^4 factors of modulus 1, each with the rounding of s.
        assert max(errors(s, N, l, reference)) < 1e-10


@pytest.mark.parametrize("s", [-1, -2, -6, -7, -8, -500])
def test_the_diagonal_system_is_regular_at_the_poles_of_the_other(s: int):
    with mpmath.workdps(60):
        nearby = Lemma1(mpmath.mpf(s) + mpmath.mpf(10) ** -40, N)
    for l in ROWS:
        expected = nearby.diagonal(l)
        actual = complex(G_Diag(s, N, l=l))
        assert abs(actual - complex(expected)) <= 1e-10 * abs(complex(expected)) + 1e-35


@given(st.integers(1, 40), st.data())
def test_are_the_transfer_functions_of_the_dense_systems(n: int, data: st.DataObject):
    l = data.draw(st.integers(1, n))
    # The eigenvalues of A_H are -1, ..., -n, those of A_perp have real part -1/2: stay clear of both.
    real = data.draw(st.floats(-0.4, 50) | st.just(0.0))
    s = complex(real, data.draw(st.floats(-1e3, 1e3)))
    A, A_perp, B = legs_numpy(n)
    dplr = np.linalg.solve(s * np.eye(n) - A, B)[l - 1]
    diagonal = np.linalg.solve(s * np.eye(n) - A_perp, B / 2)[l - 1]
    # Cramer's rule writes tiny entries as products; the solves have them relative to the largest one.
    scale = np.abs(np.linalg.solve(s * np.eye(n) - A, B)).max() + np.abs(diagonal)
    assert abs(complex(G_DPLR(s, n, l=l)) - dplr) < 1e-10 * scale
    assert abs(complex(G_Diag(s, n, l=l)) - diagonal) < 1e-10 * scale
    assert abs(complex(G_difference(s, n, l=l)) - (diagonal - dplr)) < 1e-10 * scale


def test_sixty_four_states():
    n, rows = 64, range(1, 65)
    A, A_perp, B = legs_numpy(n)
    s = np.concatenate([1j * np.logspace(-2, 4, 200), [0, 3.5, 1 - 20j]])
    pencil, right = s[:, None, None] * np.eye(n), np.broadcast_to(B[:, None], (len(s), n, 1))
    dplr = np.linalg.solve(pencil - A, right)[..., 0]
    diagonal = np.linalg.solve(pencil - A_perp, right / 2)[..., 0]
    assert_close(torch.stack([G_DPLR(s, n, l=l) for l in rows], -1), dplr, 1e-10)
    assert_close(torch.stack([G_Diag(s, n, l=l) for l in rows], -1), diagonal, 1e-10)
    assert_close(torch.stack([G_difference(s, n, l=l) for l in rows], -1), diagonal - dplr, 1e-10)
    s = np.array([-2 + 9j, -7.0, -64.0])  # A_perp is normal, so it can be solved to the left of the axis as well
    diagonal = np.linalg.solve(s[:, None, None] * np.eye(n) - A_perp, right[:3] / 2)[..., 0]
    assert_close(torch.stack([G_Diag(s, n, l=l) for l in rows], -1), diagonal, 1e-10)


@given(st.integers(1, 40), st.data(), st.floats(1e-3, 1e4))
def test_lemma_one_as_printed_has_the_other_sign(n: int, data: st.DataObject, omega: float):
    l = data.draw(st.integers(1, n))
    printed = complex(lemma1_numpy(np.array(1j * omega), n, l))
    A, A_perp, B = legs_numpy(n)
    dplr = np.linalg.solve(1j * omega * np.eye(n) - A, B)
    diagonal = np.linalg.solve(1j * omega * np.eye(n) - A_perp, B / 2)
    assert abs(printed - (diagonal - dplr)[l - 1]) < 1e-10 * np.abs(dplr).max()
    assert abs(printed - complex(G_difference(1j * omega, n, l=l))) < 1e-10 * np.abs(dplr).max()


def test_zero_frequency():
    # A^-1 B = -e_1 / sqrt(2) = A_perp^-1 B / 2: the two systems agree on constants.
    for l, expected in ((1, 0.5**0.5), (2, 0.0), (5, 0.0)):
        assert complex(G_DPLR(0, 8, l=l)) == pytest.approx(expected, abs=1e-15)
        assert complex(G_Diag(0, 8, l=l)) == pytest.approx(expected, abs=1e-15)
        assert complex(G_difference(0, 8, l=l)) == 0


@pytest.mark.parametrize("f", [G_DPLR, G_Diag, G_difference])
def test_arrays_keep_their_shape(f: Any):
    s = np.array([[1j, 2.0, -1j], [3 + 1j, -0.3, 0]])
    values = f(s, 5, l=2)
    assert values.shape == s.shape
    assert values.tolist() == [[complex(f(x, 5, l=2)) for x in row] for row in s]
    assert f([], 5).shape == (0,)


@given(st.integers(1, 30), st.floats(-0.9, 20), st.floats(-100, 100))
def test_resolvent(n: int, real: float, imag: float):
    A, _, _ = legs_numpy(n)
    s = complex(real, imag)
    # Both sides are triangular inverses; entries far below the largest one lose digits in the inverse.
    assert_close(resolvent(s, n), np.linalg.inv(s * np.eye(n) - A), 1e-9)
    assert_close(resolvent(s, n).numpy() @ (s * np.eye(n) - A), np.eye(n), 1e-9)
    assert resolvent([[s, 1j]], n).shape == (1, 2, n, n)


def test_a_million_states():
    n = 10**6
    omega = np.logspace(-3, 15, 500)
    for f in (G_DPLR, G_Diag, G_difference):
        values = f(1j * omega, n, l=n // 2)
        assert bool(torch.isfinite(torch.view_as_real(values)).all())
    assert complex(G_Diag(1 + 1j, n)) == pytest.approx(complex(0.5**0.5 / (2 + 1j)), rel=1e-10)


@pytest.mark.slow
def test_memory_stays_below_a_gibibyte():
    # 10^5 frequencies times 10^4 factors would fill 16 GB, 10^4 points off the axis 1.6 GB.
    peak = run_python(
        """
import resource, sys
from pathlib import Path
import torch
from wellposed.systems.closed_forms import G_DPLR, G_Diag, G_difference
omega = torch.logspace(-3, 9, 10**5, dtype=torch.float64)
for f in (G_DPLR, G_Diag, G_difference):
    assert f(1j * omega, 10**4, l=500).isfinite().all()
assert G_Diag(1j * omega[::10] + 1, 10**4).isfinite().all()
status = Path("/proc/self/status")
if status.exists():  # getrusage counts what the process that started this one held
    print(1024 * int(status.read_text().split("VmHWM:")[1].split()[0]))
else:
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024))
""",
        fresh=True,
    )
    assert int(peak) < 2**30


def test_poles_are_infinite_and_their_cancellations_finite():
    """q_l has poles at -1..-l; the low-rank part moves them, so G_Diag is finite there and equals a dense solve."""
    s = [-1.0, -2.0, -3.0]
    assert G_DPLR(s, 8, l=2).isinf().tolist() == [True, True, False]
    assert G_difference(s, 8, l=2).isinf().tolist() == [True, True, False]
    normal, B = split("legs", 8).N.numpy(), legs(8)[1].numpy()
    for point, value in zip(s, G_Diag(s, 8, l=2).tolist(), strict=True):
        dense = np.linalg.solve(point * np.eye(8) - normal, B / 2)[1]
        assert value == pytest.approx(dense, rel=1e-10, abs=1e-14)


def test_a_column_of_the_resolvent_is_a_column_and_reaches_a_million_states():
    s = [0.3j, -40j, 1 + 2j]
    for i in (1, 2, 9, 12):
        assert_close(resolvent(s, 12, column=i), resolvent(s, 12)[..., i - 1].numpy(), 1e-14)
    # A^-1 B = -e_1 / sqrt(2) (paper, appendix C): column 1 of the resolvent at 0 is -A^-1 e_1, known in closed form.
    column = resolvent(0, 10**6, column=1)
    k = torch.arange(2, 10**6 + 1, dtype=torch.float64)
    known = (-1.0) ** (k - 1) * (2 * k - 1).sqrt() / (k * (k - 1))
    assert column[0] == 1
    assert_close(column[1:].real, known.numpy(), 1e-12)
    assert resolvent(-1, 3).isinf().all()


def test_the_axis_costs_the_same_whatever_n():
    assert torch.isfinite(G_difference(1j, 10**9).abs())  # a product of 10^9 factors would take minutes
