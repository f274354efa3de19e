"""What an editor knows about results. ``assert_type`` is for the type checker; at run time it does nothing."""

from __future__ import annotations

from typing import Any, assert_type

import numpy as np
import pytest
from torch import Tensor

from wellposed.systems import DenseSystem, DiagonalSystem, DPLRSystem, System, s4, s4d


def test_s4_has_the_type_of_its_form():
    assert isinstance(assert_type(s4(4), DPLRSystem), DPLRSystem)
    assert isinstance(assert_type(s4(4, form="dplr"), DPLRSystem), DPLRSystem)
    assert isinstance(assert_type(s4(4, form="dense"), DenseSystem), DenseSystem)


def test_steps_have_the_type_of_their_structure():
    assert isinstance(assert_type(s4(4).discretize(0.1), DPLRSystem), DPLRSystem)
    assert isinstance(assert_type(s4(4).discretize(0.1, "zoh"), DenseSystem), DenseSystem)
    assert isinstance(assert_type(s4d(4).discretize(0.1, "zoh"), DiagonalSystem), DiagonalSystem)
    assert isinstance(assert_type(s4(4, form="dense").discretize(0.1), DenseSystem), DenseSystem)


@pytest.mark.parametrize("system", [s4(4), s4d(4), s4(4, form="dense")])
def test_other_faces_have_a_type(system: System):
    assert isinstance(assert_type(system.to_dense(), DenseSystem), DenseSystem)
    assert isinstance(assert_type(system.to_real(), DenseSystem), DenseSystem)
    assert isinstance(assert_type(system.conjugate(np.eye(4)), DenseSystem), DenseSystem)
    assert isinstance(assert_type(system.replace(D=1.0), System), type(system))


def test_replacing_keeps_the_type():
    assert_type(s4(4).replace(D=1.0), DPLRSystem)
    assert_type(s4d(4).replace(D=1.0).to_full(), DiagonalSystem)


def test_a_state_comes_if_asked_for():
    discrete, u = s4d(4).discretize(0.1), [1.0, 2.0]
    assert isinstance(assert_type(discrete.simulate(u), Tensor), Tensor)
    y, state = assert_type(discrete.simulate(u, return_state=True), tuple[Tensor, Tensor])
    assert (y.shape, state.shape) == ((2,), (2,))
    asked: Any = [True, False]
    for return_state in asked:
        assert isinstance(discrete.simulate(u, return_state=return_state), tuple) == return_state
