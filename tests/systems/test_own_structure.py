"""A structure of one's own: what it takes to add one, shown on a cascade, whose matrix is lower bidiagonal.

Tank ``j`` loses what it holds at the rate ``-Lambda[j]`` and receives ``flow[j - 1]`` times what tank ``j - 1`` holds.
A class says how ``A`` is stored and how to work with it; all else, certified distances included, comes from ``System``,
and ``SystemSuite`` checks it against a dense twin.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from system_suite import Case, SystemSuite, normal
from wellposed.errors import FrozenError, ShapeError
from wellposed.systems import DenseSystem, System, linf_distance, s4d
from wellposed.systems._base import Method
from wellposed.systems._parts import as_tensor
from wellposed.systems._resolvent import Points, Real, Resolvent, Solve


def substitute(diagonal: Tensor, below: Tensor, X: Tensor) -> Tensor:
    """Solve ``(diag(diagonal) - diag(below, -1)) Y = X`` along the axis before the last, in O(n)."""
    rows = [X[..., 0, :] / diagonal[..., 0, None]]
    for j in range(1, X.shape[-2]):
        rows.append((X[..., j, :] + below[..., j - 1, None] * rows[-1]) / diagonal[..., j, None])
    return torch.stack(rows, dim=-2)


def mirrored(t: Tensor) -> Tensor:
    return t.flip(-1)


@dataclass(frozen=True)
class CascadeResolvent(Resolvent):
    """For ``linf_distance``: first guesses, bounds for two norms, solves from both sides, and what a point costs."""

    Lambda: Tensor
    flow: Tensor
    B: Tensor
    C: Tensor

    def peaks(self) -> Tensor:
        return self.Lambda

    def norm_A(self) -> float:
        return (self.Lambda.abs().max() + self.flow.abs().sum()).item()

    def norm(self, s: Points) -> Real:
        # |R| has the row sums M^-1 1 and the column sums M^-T 1, where M has the moduli; ||R||^2 <= ||R||_1 ||R||_inf.
        gap, flow = (s[:, None] - self.Lambda).abs(), self.flow.abs()
        ones = torch.ones(len(s), len(self.Lambda), 1, dtype=torch.float64)
        rows = substitute(gap, flow.expand(len(s), -1), ones).amax((-2, -1))
        columns = substitute(mirrored(gap), mirrored(flow).expand(len(s), -1), ones).amax((-2, -1))
        return (rows * columns).sqrt()

    def solvers(self, s: Points) -> tuple[Solve, Solve]:
        gap, flow = s[:, None] - self.Lambda, self.flow.expand(len(s), -1)
        # Y R is the transpose of R^T Y^T, and R^T is a cascade that runs the other way.
        return (
            lambda X: substitute(gap, flow, X),
            lambda Y: substitute(mirrored(gap), mirrored(flow), mirrored(Y).mT).mT.flip(-1),
        )

    def cost(self) -> int:
        return 4 * len(self.Lambda)


class CascadeSystem(System):
    """``A = diag(Lambda) + diag(flow, -1)``."""

    Lambda: Tensor
    flow: Tensor
    _state = ("Lambda", "flow")  # the constructor takes these by name, and B, C, D, dt

    def __init__(self, Lambda: Any, flow: Any, B: Any, C: Any, D: Any = None, *, dt: Any = None) -> None:
        Lambda, flow = as_tensor(Lambda, "Lambda"), as_tensor(flow, "flow")
        if flow.shape[-1:] != (Lambda.shape[-1] - 1,):
            raise ShapeError(f"flow has shape {tuple(flow.shape)}; between {Lambda.shape[-1]} tanks there is one less")
        self._set({"Lambda": (Lambda, 1), "flow": (flow, 1)}, B, C, D, dt)

    def poles(self) -> Tensor:
        return self.Lambda.to(self.Lambda.dtype.to_complex())  # A is triangular

    def to_dense(self) -> DenseSystem:
        A = torch.diag_embed(self.Lambda) + torch.diag_embed(self.flow, -1)
        return self._like(DenseSystem(A, self.B, self.C, self.D, dt=self.dt))

    def discretize(self, dt: Any, method: Method = "bilinear") -> DenseSystem:
        return self.to_dense().discretize(dt, method)  # one step of a cascade is a full triangle

    def _resolvent_form(self, s: Tensor) -> Tensor:
        gap = s[:, None] - self.Lambda[..., None, :]
        X = substitute(gap, self.flow[..., None, :], self.B.to(s.dtype)[..., None, :, :])
        return self.C.to(s.dtype)[..., None, :, :] @ X

    def _resolvent(self) -> CascadeResolvent:
        return CascadeResolvent(*(t.to(torch.complex128) for t in (self.Lambda, self.flow, self.B, self.C)))


class TestCascade(SystemSuite):
    def parameters(self, case: Case, rng: np.random.Generator) -> dict[str, Tensor]:
        rate = torch.from_numpy(rng.uniform(1, 3, size=(*case.batch, case.n)))
        turn = torch.from_numpy(rng.uniform(-5, 5, size=(*case.batch, case.n)))
        return {
            "Lambda": -rate if case.real else torch.complex(-rate, turn),
            "flow": normal(rng, *case.batch, case.n - 1, real=case.real) / 2,
            "B": normal(rng, *case.batch, case.n, case.m, real=case.real),
            "C": normal(rng, *case.batch, case.p, case.n, real=case.real),
            "D": normal(rng, *case.batch, case.p, case.m, real=case.real),
        }

    def build(self, parameters: dict[str, Tensor], dt: Any = None) -> CascadeSystem:
        return CascadeSystem(*(parameters[key] for key in ("Lambda", "flow", "B", "C", "D")), dt=dt)

    def dense(self, parameters: dict[str, Tensor]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        A = torch.diag_embed(parameters["Lambda"]) + torch.diag_embed(parameters["flow"], -1)
        return A, parameters["B"], parameters["C"], parameters["D"]


def test_it_is_compared_with_structures_that_never_heard_of_it():
    # Two tanks in a row: 1 / ((s + 1)(s + 2)), largest at s = 0.
    cascade = CascadeSystem([-1.0, -2.0], [1.0], B=[1.0, 0.0], C=[0.0, 1.0])
    silent = s4d(2).replace(C=[0.0])
    assert linf_distance(cascade, silent).value == pytest.approx(0.5, rel=1e-12)
    assert linf_distance(silent, cascade).value == pytest.approx(0.5, rel=1e-12)


def test_it_is_frozen_and_replaced_like_the_others():
    cascade = CascadeSystem([-1.0, -2.0], [1.0], B=[1.0, 0.0], C=[0.0, 1.0])
    with pytest.raises(FrozenError, match=r"replace\(flow=\.\.\.\)"):
        cascade.flow = torch.ones(1)
    assert complex(cascade.replace(flow=[3.0])(0.0)) == pytest.approx(1.5)
    with pytest.raises(ShapeError, match="between 2 tanks there is one less"):
        cascade.replace(flow=[1.0, 1.0])
