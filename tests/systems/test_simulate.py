"""Simulation beyond what every structure shares: sizes, batches along any axes, modes at the edges."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from dense_twin import Twin, assert_close
from subprocesses import run_python
from wellposed.kernels import tables
from wellposed.systems import DenseSystem, DiagonalSystem


@pytest.mark.parametrize("ports", [(1, 1), (3, 2), (64, 64), (1000, 1000), (1, 5000)])
@pytest.mark.parametrize("length", [1, 7, 10_000, 10**6])
def test_tables_stay_small(ports: tuple[int, int], length: int):
    """Nothing grows with the square of the ports and of the chunk at once: 64 x 64 of them once took 9 GB."""
    entries = ports[0] * ports[1]
    chunk = tables.chunk_with_ports(length, entries)
    assert 1 <= chunk <= length
    assert chunk == 1 or chunk**2 * entries <= tables.LARGEST_TABLE == 2**20
    assert ports[0] > 1 or chunk >= min(length, 4)


def test_many_ports(monkeypatch: pytest.MonkeyPatch):
    """The tables that are made are of that size, and the outputs those of the loop."""
    sizes = []
    made = tables.Tables.of

    def spy(*args: Any, **options: Any) -> list[tables.Tables]:
        found = made(*args, **options)
        sizes.extend(t.numel() for t in found[0])
        return found

    monkeypatch.setattr(tables.Tables, "of", staticmethod(spy))
    rng = np.random.default_rng(0)
    twin = Twin(*(rng.normal(size=shape) / 10 for shape in ((8, 8), (8, 64), (64, 8), (64, 64))))
    u = rng.normal(size=(2000, 64))
    y = DenseSystem(*twin, dt=1.0).simulate(u)
    assert max(sizes) <= 2**20
    assert_close(y, twin.simulate(u, np.zeros(8), "usual")[0], 1e-12)


@pytest.mark.parametrize(
    ("systems", "inputs", "states"),
    [
        ((2, 1), (3,), ()),
        ((1, 3), (2, 1), (4, 1, 1)),
        ((3,), (1,), (2, 3)),
        ((1,), (), (5,)),
        ((), (2, 2), (2,)),
        ((2, 1, 3), (4, 1), (1, 1, 1)),
    ],
)
@pytest.mark.parametrize("complex_input", [False, True])
def test_batches_broadcast_along_any_axes(
    systems: tuple[int, ...], inputs: tuple[int, ...], states: tuple[int, ...], complex_input: bool
):
    rng = np.random.default_rng(0)

    def normal(*shape: int, real: bool = False) -> np.ndarray:
        return rng.normal(size=shape) + (0 if real else 1j * rng.normal(size=shape))

    Lambda = 0.9 * np.exp(1j * rng.normal(size=(*systems, 3)))
    A = np.einsum("...i,ij->...ij", Lambda, np.eye(3))
    B, C, D = normal(*systems, 3, 2), normal(*systems, 2, 3), normal(*systems, 2, 2)
    u, state = normal(*inputs, 37, 2, real=not complex_input), normal(*states, 3)
    y, end = Twin(A, B, C, D).simulate(u, state, "usual")
    for system in (DiagonalSystem(Lambda, B, C, D, dt=1.0), DenseSystem(A, B, C, D, dt=1.0)):
        found, last = system.simulate(u, state, return_state=True)
        assert_close(found, y, 1e-12)
        assert_close(last, end, 1e-12)


@pytest.mark.parametrize("diagonal", [True, False])
@pytest.mark.parametrize("length", [5, 1000])
def test_modes_that_grow_stay_or_vanish(diagonal: bool, length: int):
    """Poles outside, on and inside the circle, and at 0, where there is no logarithm; gradients included."""
    poles = [1.5, 1.0, -1.0, 0.5, 0.0]
    Lambda = torch.tensor(poles, dtype=torch.float64, requires_grad=True)
    B, C = torch.ones(5, 1, dtype=torch.float64), torch.eye(5, dtype=torch.float64)
    system = DiagonalSystem(Lambda, B, C, dt=1.0) if diagonal else DenseSystem(torch.diag_embed(Lambda), B, C, dt=1.0)
    y = system.simulate(torch.ones(length, 1, dtype=torch.float64))
    assert not y.is_complex()
    for k, pole in enumerate(poles):
        right = [0.0]
        for _ in range(length):
            right.append(pole * right[-1] + 1)
        assert_close(y[:, k], np.array(right[1:]), 1e-12)
    (slope,) = torch.autograd.grad(y[2].sum(), Lambda)  # 1 + z + z^2
    assert_close(slope, np.array([1 + 2 * pole for pole in poles]), 1e-12)


@pytest.mark.parametrize(
    ("diagonal", "convention", "pole", "length"),
    [(True, "usual", 1.5, 1900), (True, "delayed", -1e6, 300), (False, "usual", -1e6, 300)],
)
def test_a_mode_that_nothing_excites_stays_at_rest(diagonal: bool, convention: Any, pole: float, length: int):
    """Its powers are beyond floats, and infinity times zero is not zero."""
    poles, B, C = np.array([pole, 0.5]), np.array([[0.0], [1.0]]), np.ones((1, 2))
    twin = Twin(np.diag(poles), B, C, np.full((1, 1), 0.3))
    u = np.random.default_rng(0).normal(size=(2, length, 1))
    right, end = twin.simulate(u, np.zeros(2), convention)
    system = DiagonalSystem(poles, B, C, twin.D, dt=1.0) if diagonal else DenseSystem(*twin, dt=1.0)
    y, last = system.simulate(u, convention=convention, return_state=True)
    assert_close(y, right, 1e-12)
    assert_close(last, end, 1e-12)
    assert_close(system.impulse_response(length, convention), twin.markov(length, convention), 1e-12)
    quiet, last = system.simulate(np.zeros((length, 1)), convention=convention, return_state=True)
    assert not quiet.any()
    assert not last.any()


def test_one_sequence_beyond_floats_leaves_the_others_alone():
    u = torch.zeros(2, 2000, dtype=torch.float64)
    u[1, 0] = 1.0
    y = DiagonalSystem([1.5], [1.0], [1.0], dt=1.0).simulate(u)
    assert not y[0].any()
    assert_close(y[1, :1500], 1.5 ** np.arange(1500), 1e-10)
    assert not torch.isfinite(y[1, 1800:]).any()


def test_simulation_does_not_load_the_compiler():
    """Operators that compilers need are theirs alone: loading them takes seconds, a simulation milliseconds."""
    run_python("""
import sys
from wellposed.systems import s4, s4d
for system in (s4d(8), s4(8, form="dense")):
    system.discretize(0.1).simulate([1.0] * 100)
    system.discretize(0.1).impulse_response(100)
assert "sympy" not in sys.modules and "torch._dynamo" not in sys.modules
""")
