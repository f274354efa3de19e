"""What cannot be a system, a frequency or an input is refused by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from scipy.sparse import csr_array

from subprocesses import run_python
from wellposed.errors import ArgumentError, IllConditionedError, ShapeError
from wellposed.systems import (
    DenseSystem,
    DiagonalSystem,
    DPLRSystem,
    closed_forms,
    from_control,
    from_scipy,
    s4,
)

SYSTEM = s4(4)
STEPS = SYSTEM.discretize(0.1)
TAKERS: dict[str, Callable[[Any], Any]] = {
    "A": lambda x: DenseSystem(x, [1.0], [1.0]),
    "B": lambda x: DenseSystem([[-1.0]], x, [1.0]),
    "C": lambda x: s4(4, C=x if x is not None else "None"),
    "Lambda": lambda x: DiagonalSystem(x, [1.0], [1.0]),
    "P": lambda x: DPLRSystem([-1.0], x, B=[1.0], C=[1.0]),
    "V": SYSTEM.conjugate,
    "dt": SYSTEM.discretize,
    "s": SYSTEM,
    "omega": SYSTEM.frequency_response,
    "u": STEPS.simulate,
    "state": lambda x: STEPS.simulate([1.0, 2.0], x if x is not None else "None"),
    "D": lambda x: DenseSystem([[-1.0]], [1.0], [1.0], x if x is not None else "None"),
}


@pytest.mark.parametrize("name", TAKERS)
def test_what_holds_no_numbers(name: str):
    for wrong in ("x", None, object(), ["1", "2"], [None]):
        with pytest.raises(ArgumentError, match=f"{name} must hold numbers, got"):
            TAKERS[name](wrong)
    with pytest.raises(ShapeError, match=f"{name} must have rows of one length"):
        TAKERS[name]([[1.0, 2.0], [3.0]])
    with pytest.raises(ArgumentError, match=f"{name} is a sparse matrix .*toarray"):
        TAKERS[name](csr_array([[1.0]]))
    with pytest.raises(ArgumentError, match=f"{name} is a sparse tensor .*to_dense"):
        TAKERS[name](torch.eye(2).to_sparse())
    with pytest.raises(ArgumentError, match=f"{name} is on the device 'meta'"):
        TAKERS[name](torch.ones(4, device="meta"))


@pytest.mark.parametrize(
    "call",
    [
        lambda: closed_forms.G_DPLR("x", 4),
        lambda: closed_forms.resolvent(None, 4),
        lambda: from_scipy("x"),
        lambda: from_control("x"),
    ],
)
def test_what_is_something_else(call: Callable[[], Any]):
    with pytest.raises(ArgumentError):
        call()


def test_what_type_checkers_would_refuse():
    """In a process of its own: here the types of arguments are checked before the functions see them."""
    run_python("""
from wellposed.errors import WellposedError
from wellposed.hippo import lagt
from wellposed.systems import linf_distance, s4, s4d, to_scipy
for call in (
    lambda: linf_distance("x", s4(4)),
    lambda: linf_distance(s4(4), s4d(4), rtol="x"),
    lambda: linf_distance(s4(4), s4d(4), max_evaluations=0.5),
    lambda: to_scipy("x"),
    lambda: lagt(4, beta="x"),
):
    try:
        call()
    except WellposedError:
        continue
    raise AssertionError(call)
""")


@pytest.mark.parametrize(
    ("system", "whose"),
    [
        (DenseSystem([[2.0, 1.0], [0.0, -1.0]], [1.0, 1.0], [1.0, 1.0]), "of A"),
        (DiagonalSystem([2.0, -1.0], [1.0, 1.0], [1.0, 1.0]), "of A"),
        (DiagonalSystem([2.0, -1 + 1j], [1.0, 1.0], [1.0, 1.0], pairs=True), "of A"),
        (DPLRSystem([3.0], [[1.0]], B=[1.0], C=[1.0]), "of A"),
        (DPLRSystem([2.0], [[1.0]], B=[1.0], C=[1.0]), "of the diagonal part"),
    ],
)
def test_steps_for_which_the_bilinear_rule_is_singular(system: Any, whose: str):
    with pytest.raises(IllConditionedError, match=rf"dt = 1: .* 2/dt = 2 is an eigenvalue {whose}.*zoh"):
        system.discretize(1.0)
    system.discretize(1.0, "zoh")
    system.discretize(0.5)
