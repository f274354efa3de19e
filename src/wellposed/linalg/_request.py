"""What one call of ``ptd`` asks for: checked once, then held against every candidate."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from wellposed._checks import number, one_of
from wellposed._checks import seed as checked_seed
from wellposed.errors import ArgumentError
from wellposed.linalg._eigen import Eigen

METHODS = ("auto", "rank-one", "optimized", "gaussian")
_KNOBS = {"rel": 1, "eps": 1, "cond": -1, "gamma": -1}  # whether more of it makes a larger or a smaller perturbation
_TINY = float(np.nextafter(0, 1))  # the margin of "negative": any real part below zero will do
_CERTAINLY = 1e-12  # of ||A||: how far left of the axis A's own eigenvalues make it a stable matrix
_OUT_OF_PROPORTION = 1e100  # times ||A||: squares of such an E are still floats


@dataclass(frozen=True)
class Request:
    """What one call asks for. Numbers in the unit of ``A`` are given in multiples of ``unit``."""

    method: str
    knob: str
    """Which of the four sets the size of the perturbation ..."""
    amount: float
    """... and its value, as the caller gave it."""
    power: int
    norm: str
    unit_columns: bool
    margin: float | None
    avoid_real: bool
    complex_valued: bool
    seed: int
    keep: bool = False
    """Whether ``margin`` is to follow from A itself: a stable matrix gets a stable neighbour."""
    eps: float | None = None
    """``||E||``, where the knob says so."""
    gamma: float | None = None
    unit: float = 1.0

    @property
    def cond(self) -> float | None:
        """The condition number to reach, where the knob says so."""
        return self.amount if self.knob == "cond" else None

    @property
    def tries_everything(self) -> bool:
        """Whether no other method could do better."""
        return self.method in ("auto", "optimized")

    def scaled_to(self, size: float, unit: float) -> Request:
        """The same request about a matrix ``A / unit`` of norm ``size``."""
        eps = {"rel": size * self.amount, "eps": self.amount / unit}.get(self.knob)
        gamma = self.amount * unit if self.knob == "gamma" else None
        if (eps is not None and eps > _OUT_OF_PROPORTION * size > 0) or gamma in (0, np.inf):
            raise ArgumentError(f"{self.knob} = {self.amount:g} is out of proportion to ||A|| = {size * unit:.3g}")
        margin = None if self.margin is None else max(self.margin / unit, _TINY)
        if margin is not None and margin > _OUT_OF_PROPORTION * size > 0:
            raise ArgumentError(f"margin = {self.margin:g} is out of proportion to ||A|| = {size * unit:.3g}")
        return dataclasses.replace(self, eps=eps, gamma=gamma, margin=margin, unit=unit)

    def over_reals(self) -> Request:
        """The same request, where a real perturbation will do."""
        return dataclasses.replace(self, complex_valued=False)

    def keeping(self, plain: Eigen, size: float) -> Request:
        """The same request about a matrix with these eigenvalues and norm: ``keep`` becomes a margin, or nothing.

        A random perturbation is what it is, and stays a random one.
        """
        stable = plain.abscissa < -_CERTAINLY * size
        if not (self.keep and stable) or self.method == "gaussian":
            return dataclasses.replace(self, keep=False)
        return dataclasses.replace(self, margin=_TINY)

    def knob_change(self, sign: int) -> str:
        """What makes the perturbation larger (1) or smaller (-1), in words."""
        return f"a {'larger' if sign == _KNOBS[self.knob] else 'smaller'} {self.knob}"

    def meets(self, result: Eigen) -> bool:
        """Whether a candidate has the spectrum asked for: stable, and in conjugate pairs."""
        # A real matrix of odd size has a real eigenvalue, whatever is done to it.
        return self.stable(result) and (not self.avoid_real or result.real_eigenvalues <= len(result.lam) % 2)

    def stable(self, result: Eigen) -> bool:
        """Whether a candidate is as stable as asked for, and by more than rounding could make of an eigenvalue 0."""
        return self.margin is None or (result.abscissa <= -self.margin and result.certain_abscissa < 0)

    def sort_key(self, result: Eigen) -> tuple[bool, float]:
        """Best first: the spectrum asked for, then the condition number."""
        return (not self.meets(result), result.balanced_condition)

    def choose(self, candidates: Iterable[Eigen]) -> Eigen:
        """The best candidate; among those within 5 % of it, the one with fewest real eigenvalues.

        A real eigenvalue takes as much room in a layer as a whole conjugate pair.
        """
        found = sorted(candidates, key=self.sort_key)
        best, limit = self.meets(found[0]), 1.05 * found[0].balanced_condition
        close = [c for c in found if self.meets(c) == best and c.balanced_condition <= limit]
        return min(close, key=lambda c: c.real_eigenvalues)


def checked_request(
    knobs: dict[str, Any],
    *,
    method: str,
    power: Any,
    norm: str,
    columns: str,
    stable: Any,
    margin: Any,
    real_eigenvalues: str,
    field: str,
    seed: Any,
    complex_valued: bool,
) -> Request:
    """The request, after everything has been looked at; an argument that would have no effect is refused."""
    for kind, name, known in (
        ("method", method, METHODS),
        ("norm", norm, ("fro", "spectral")),
        ("columns", columns, ("optimal", "unit")),
        ("real_eigenvalues", real_eigenvalues, ("allow", "avoid")),
        ("field", field, ("auto", "complex")),
    ):
        one_of(name, kind, known)
    knob, amount = _single_knob(knobs)
    if not isinstance(power, int | float | np.number) or isinstance(power, bool) or power not in (1, 2):
        raise ArgumentError(f"power must be 1 or 2, got {power!r}")
    if knob == "gamma" and method not in ("auto", "optimized"):
        raise ArgumentError(f"gamma = {amount:g} weighs a penalty: it goes with method='optimized', not {method!r}")
    if knob != "gamma" and (power, norm) != (1, "fro"):
        given = f"power = {power}" if power != 1 else f"norm = {norm!r}"
        raise ArgumentError(
            f"{given} shapes the penalty of gamma and has no effect with {knob}: drop it, or pass gamma"
        )
    if real_eigenvalues == "avoid" and complex_valued:
        raise ArgumentError(
            "real_eigenvalues='avoid' makes conjugate pairs, and a complex matrix has none: drop it"
            + (", or field='complex'" if field == "complex" else "")
        )
    return Request(
        method=method,
        knob=knob,
        amount=amount,
        power=int(power),
        norm=norm,
        unit_columns=columns == "unit",
        margin=_margin(stable, margin),
        keep=isinstance(stable, str) and margin is None,
        avoid_real=real_eigenvalues == "avoid",
        complex_valued=complex_valued,
        seed=checked_seed(seed),
    )


def _single_knob(knobs: dict[str, Any]) -> tuple[str, float]:
    """The one knob that was given."""
    given = {name: number(value, name) for name, value in knobs.items() if value is not None} or {"rel": 0.1}
    if len(given) > 1:
        text = ", ".join(f"{name} = {value:g}" for name, value in given.items())
        raise ArgumentError(f"one knob sets the size of the perturbation, got {text}: drop all but one")
    ((name, amount),) = given.items()
    if not (np.isfinite(amount) and amount > 0):
        raise ArgumentError(f"{name} must be a positive number, got {amount:g}")
    if name == "cond" and amount < 1:
        raise ArgumentError(f"cond = {amount:g}: no matrix has a condition number below 1")
    return name, amount


def _margin(stable: Any, margin: Any) -> float | None:
    if not isinstance(stable, bool | np.bool_) and not (isinstance(stable, str) and stable == "keep"):
        raise ArgumentError(f"stable must be True, False or 'keep', got {stable!r}")
    if margin is None:
        return _TINY if stable and not isinstance(stable, str) else None
    margin = number(margin, "margin")
    if not (np.isfinite(margin) and margin > 0):
        raise ArgumentError(f"margin must be a positive number, got {margin:g}; for max Re < 0 pass stable=True")
    return margin


def checked_seconds(time_limit: Any) -> float:
    """A time limit; infinite where there is none."""
    if time_limit is None:
        return np.inf
    seconds = number(time_limit, "time_limit")
    if not seconds > 0:
        raise ArgumentError(f"time_limit must be a positive number of seconds, got {seconds:g}")
    return seconds


def check_progress(progress: Any) -> None:
    """Refuse what cannot be called before the work begins, not seconds into it."""
    if progress is not None and not callable(progress):
        raise ArgumentError(f"progress must be a function of a line of text, such as print, got {progress!r}")
