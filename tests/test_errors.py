"""Every error is typed and names the number that went wrong. (Those of one module alone are tested next to it.)"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from jaxtyping import TypeCheckError

from subprocesses import run_python
from wellposed import errors, hippo, systems
from wellposed.errors import IllConditionedError, NotFiniteError, NotRealError, ShapeError, TimeDomainError
from wellposed.systems import DenseSystem, DiagonalSystem, DPLRSystem, closed_forms, s4, s4d, spikes

ONE = DenseSystem([[-1.0, 0.0], [0.0, -2.0]], [1.0, 1.0], [1.0, 1.0])
BATCH = DenseSystem(-np.ones((3, 1, 1)), np.ones((3, 1)), np.ones((3, 1)))
NAN_B = [1.0, float("nan")]

CASES: list[tuple[Callable[[], Any], type[Exception], str]] = [
    # sizes and indices
    (lambda: hippo.legs(0), ShapeError, "n must be at least 1, got 0"),
    (lambda: hippo.split("legt", -3), ShapeError, "n must be at least 1, got -3"),
    (lambda: s4(0), ShapeError, "got 0"),
    (lambda: s4d(-1), ShapeError, "got -1"),
    (lambda: spikes(4, last=0), ShapeError, "last must be at least 1, got 0"),
    (lambda: spikes(4, 5), ShapeError, "l counts from 1 to n = 4, got 5"),
    (lambda: closed_forms.G_Diag(1j, 3, l=4), ShapeError, "n = 3, got 4"),
    (lambda: closed_forms.G_DPLR(1j, 3, l=0), ShapeError, "l must be at least 1, got 0"),
    (lambda: closed_forms.resolvent(1j, 0), ShapeError, "got 0"),
    (lambda: s4(3, l=4), ShapeError, "n = 3, got 4"),
    (lambda: s4(3, l=2, C=[1.0, 0.0, 0.0]), ShapeError, r"not both \(l = 2\)"),
    (lambda: s4d(3, C=[1.0, 0.0]), ShapeError, r"shape \(2,\); a row must have n = 3"),
    # numbers that are none
    (lambda: DenseSystem([[-1.0, np.inf], [0.0, -2.0]], [1.0, 1.0], [1.0, 1.0]), NotFiniteError, r"A\[0, 1\] = inf"),
    (lambda: DenseSystem([[-1.0, 0.0], [0.0, -2.0]], NAN_B, [1.0, 1.0]), NotFiniteError, r"B has 1 .* B\[1\] = nan"),
    (lambda: DiagonalSystem([-1.0, complex("nan")], [1.0, 1.0], [1.0, 1.0]), NotFiniteError, r"Lambda\[1\] = \(?nan"),
    (lambda: ONE([1j, complex(0, np.nan)]), NotFiniteError, r"s\[1\]"),
    (lambda: ONE.discretize(float("nan")), NotFiniteError, "dt = nan"),
    (lambda: ONE.discretize(0.1).simulate([1.0, np.nan, np.inf]), NotFiniteError, r"u has 2 .* u\[1\] = nan"),
    (lambda: ONE.discretize(0.1).simulate([1.0], [0.0, np.nan]), NotFiniteError, r"state\[1\] = nan"),
    (lambda: ONE.conjugate([[1.0, np.nan], [0.0, 1.0]]), NotFiniteError, r"V\[0, 1\] = nan"),
    (lambda: closed_forms.G_difference([1j, np.nan], 4), NotFiniteError, r"s\[1\]"),
    (lambda: closed_forms.resolvent(np.inf, 4), NotFiniteError, "s = "),
    (lambda: s4(2, C=NAN_B), NotFiniteError, r"C\[1\] = nan"),
    # matrices that do not fit
    (lambda: DenseSystem(np.ones((2, 3)), [1.0], [1.0]), ShapeError, r"square, got shape \(2, 3\)"),
    (lambda: DenseSystem(np.ones((0, 0)), [], []), ShapeError, r"\(0, 0\): a system needs n >= 1"),
    (lambda: DenseSystem([[-1.0]], [1.0, 2.0], [1.0]), ShapeError, "n = 1 states, B has 2 rows and C 1 columns"),
    (lambda: DenseSystem([[-1.0]], np.ones((2, 2, 1, 1)), [1.0]), ShapeError, "B has 4 axes, but A has 0 batch axes"),
    (lambda: DenseSystem([[-1.0]], [1.0], [1.0], [1.0, 2.0]), ShapeError, r"D has shape \(2,\); with 1 outputs"),
    (lambda: DPLRSystem(-1.0, [[1.0]], B=[1.0], C=[1.0]), ShapeError, "Lambda must be a vector"),
    (lambda: DPLRSystem([-1.0], [[1.0], [2.0]], B=[1.0], C=[1.0]), ShapeError, r"P has shape \(2, 1\)"),
    (lambda: DPLRSystem([-1.0], [[1.0]], [[1.0, 2.0]], B=[1.0], C=[1.0]), ShapeError, r"Q has shape \(1, 2\)"),
    (lambda: DiagonalSystem(-1.0, [1.0], [1.0]), ShapeError, "Lambda must be a vector"),
    (
        lambda: DenseSystem(-np.ones((3, 1, 1)), np.ones((2, 1)), np.ones((3, 1))),
        ShapeError,
        r"batch shapes do not fit together: .*\(3,\).*\(2,\)",
    ),
    (lambda: ONE[0], ShapeError, "single system"),
    (lambda: ONE.conjugate(np.eye(3)), ShapeError, r"2 x 2 to change the 2 states, got \(3, 3\)"),
    (lambda: ONE.conjugate(np.ones((2, 2))), IllConditionedError, r"cond\(V\) = (inf|\d\.\de\+\d\d)"),
    # signals that do not fit
    (lambda: ONE.discretize(0.1).simulate([]), ShapeError, "length of u must be at least 1, got 0"),
    (lambda: ONE.discretize(0.1).impulse_response(0), ShapeError, "length must be at least 1, got 0"),
    (lambda: ONE.discretize(0.1).simulate([1.0], np.ones(3)), ShapeError, r"state has shape \(3,\), .* 2 stored"),
    (lambda: s4(4, C=np.eye(4)).discretize(0.1).simulate(np.ones((5, 2))), ShapeError, r"\(5, 2\); .*\(length, 1\)"),
    (lambda: BATCH.discretize(0.1).simulate(np.ones((2, 5))), ShapeError, r"\(3,\) systems, \(2,\) inputs"),
    (
        lambda: BATCH.discretize(0.1).simulate(np.ones(5), np.ones((4, 1))),
        ShapeError,
        r"\(3,\) systems, \(\) inputs, \(4,\) states",
    ),
    # time
    (lambda: ONE.simulate([1.0]), TimeDomainError, r"continuous: call discretize\(dt\) first"),
    (lambda: ONE.impulse_response(3), TimeDomainError, "continuous"),
    (lambda: ONE.discretize(0.25).discretize(0.1), TimeDomainError, "discrete already, with dt = 0.25"),
    (lambda: s4(4).discretize(0.25).discretize(0.1), TimeDomainError, "dt = 0.25"),
    (lambda: s4d(4).discretize(0.25).discretize(0.1), TimeDomainError, "dt = 0.25"),
    (lambda: ONE.discretize(0), TimeDomainError, "dt must be positive, got 0"),
    (lambda: ONE.discretize(-0.5), TimeDomainError, "got -0.5"),
    (lambda: BATCH.discretize([0.1, -0.2, 0.3]), TimeDomainError, "got -0.2"),
    (lambda: BATCH.discretize([0.1, 0.2]), ShapeError, r"dt has shape \(2,\), the batch \(3,\)"),
    (lambda: BATCH.discretize([0.1, 0.2, 0.3]).frequency_response(1.0), TimeDomainError, r"different dt: take one"),
    # real systems
    (lambda: DiagonalSystem([-1j - 1], [1.0], [1.0], 1j, pairs=True), NotRealError, "D may not be complex"),
    (
        lambda: DiagonalSystem([-1 + 1j, -1 + 2j], [1.0, 1.0], [1.0, 1.0]).to_pairs(),
        NotRealError,
        "2 eigenvalues above",
    ),
    (lambda: DiagonalSystem([-1 + 1j, -2 - 1j], [1.0, 1.0], [1.0, 1.0]).to_pairs(), NotRealError, r"by 1\.0e\+00"),
    (
        lambda: DiagonalSystem([-1 + 1j, -1 - 1j], [1.0, 2.0], [1.0, 1.0]).to_pairs(),
        NotRealError,
        r"1\.0e\+00 of 2\.0e\+00",
    ),
    (lambda: DenseSystem([[-1 + 1j]], [1.0], [1.0]).to_real(), NotRealError, r"imaginary part reaches \d\.\de"),
    (lambda: DiagonalSystem(-np.ones((3, 1)), np.ones((3, 1)), np.ones((3, 1))).to_pairs(), ShapeError, r"sys\[i\]"),
]


@pytest.mark.parametrize(("call", "error", "message"), CASES, ids=[message for _, _, message in CASES])
def test_errors_name_what_went_wrong(call: Callable[[], Any], error: type[Exception], message: str):
    with pytest.raises(error, match=message):
        call()


# The run-time type checks of the tests would catch these before the library does.
UNCHECKED = {
    "wellposed.hippo.legs(2.5)": ("ShapeError", "n must be a whole number, got 2.5"),
    "wellposed.hippo.legs('3')": ("ShapeError", "got '3'"),
    "wellposed.hippo.legs(3, scale='papers')": ("UnknownNameError", "unknown scale 'papers'; did you mean 'paper'?"),
    "wellposed.ptd(wellposed.hippo.legs(3)[0]).transform(3)": (
        "ArgumentError",
        "transform takes a system of wellposed.systems, got 3",
    ),
    "systems.s4(3).diagonalized(3)": ("ArgumentError", "diagonalized takes what ptd returns, got int"),
    "wellposed.hippo.legt(3, scale='s5')": ("UnknownNameError", "unknown scale 's5'; did you mean 's4'?"),
    "wellposed.hippo.lagt(3, scale='s5')": ("UnknownNameError", "unknown scale 's5'"),
    "wellposed.hippo.split('lagt', 3, scale='s5')": ("UnknownNameError", "unknown scale 's5'"),
    "wellposed.hippo.dplr('legz', 3)": ("UnknownNameError", "unknown measure 'legz'; did you mean"),
    "wellposed.hippo.split('leg', 3)": ("UnknownNameError", "unknown measure 'leg'; did you mean 'legt' or 'legs'"),
    "wellposed.hippo.split('chebyshev', 3)": ("UnknownNameError", "known: fout, lagt, legs, legt"),
    "wellposed.hippo.split(['legs'], 3)": ("UnknownNameError", "unknown measure ['legs']"),
    "wellposed.linalg.gallery.matrix(None)": ("UnknownNameError", "unknown matrix None; known: basor"),
    "wellposed.linalg.eig_shifted_skew([[0, 1], [-1, 0]])": ("ShapeError", "float32 or float64, got torch.int64"),
    "wellposed.linalg.matrix_exp([1.0])": ("ShapeError", "M must be square, got shape (1,)"),
    "wellposed.ptd([[1.0]], rel=__import__('torch').ones((), device='meta'))": (
        "ArgumentError",
        "rel is on the device",
    ),
    "wellposed.ptd([[1.0]], method=__import__('numpy').eye(2))": ("UnknownNameError", "unknown method array"),
    "systems.s4(3).in_eigenvectors('a', 'b', 'c')": ("ArgumentError", "Lambda must hold numbers, got 'a'"),
    "systems.s4(3, form='sparse')": ("UnknownNameError", "unknown form 'sparse'"),
    "systems.s4(3).discretize(0.1, 'zho')": ("UnknownNameError", "unknown method 'zho'; did you mean 'zoh'?"),
    "systems.s4(3).discretize(0.1, 'euler')": ("UnknownNameError", "known: bilinear, zoh"),
    "systems.s4d(3).discretize(0.1, 'tustin')": ("UnknownNameError", "known: bilinear, zoh"),
    "systems.s4(3).discretize(0.1).simulate([1.0], convention='delay')": (
        "UnknownNameError",
        "did you mean 'delayed'?",
    ),
    "systems.s4(3).discretize(0.1).impulse_response(2, 'usul')": ("UnknownNameError", "did you mean 'usual'?"),
    "systems.s4(3).discretize(0.1).impulse_response(2.5)": ("ShapeError", "length must be a whole number, got 2.5"),
    "wellposed.nn.parameter_groups(__import__('torch').nn.Linear(2, 2), lr=0.1, decay='weight')": (
        "UnknownNameError",
        "unknown decay 'weight'; did you mean 'weights'?",
    ),
    "systems.to_control(systems.s4(3))": ("MissingExtraError", "this needs control: pip install 'wellposed[control]'"),
    "systems.from_control(None)": ("MissingExtraError", "wellposed[control]"),
}


@pytest.fixture(scope="module")
def unchecked() -> dict[str, list[str]]:
    return json.loads(
        run_python(f"""
import json, sys
sys.modules["control"] = None  # as if it were not installed
import wellposed
from wellposed import systems
found = {{}}
for call in {list(UNCHECKED)!r}:
    try:
        eval(call)
    except Exception as error:
        found[call] = [type(error).__name__, str(error)]
print(json.dumps(found))
""")
    )


@pytest.mark.parametrize("call", UNCHECKED)
def test_errors_of_the_wrong_type(call: str, unchecked: dict[str, list[str]]):
    kind, text = UNCHECKED[call]
    assert unchecked[call][0] == kind
    assert text in unchecked[call][1]


def test_one_base_catches_them_all():
    kinds = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if kind.__module__ == errors.__name__]
    assert len(kinds) > 8
    for kind in kinds:
        assert issubclass(kind, errors.WellposedError)
        assert kind is errors.WellposedError or kind.__mro__[2] is not Exception  # and is a builtin error too
    with pytest.raises(KeyError):
        hippo.split("nothing", 3)
    with pytest.raises(ValueError, match="got 0"):
        hippo.legs(0)


def test_shapes_are_checked_while_the_tests_run():
    assert hasattr(systems.spikes, "__wrapped__")
    with pytest.raises(TypeCheckError, match="legs"):
        hippo.legs("three")  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeCheckError, match="winding"):
        systems.closed_forms.winding(torch.ones(3, dtype=torch.float32), 3)
