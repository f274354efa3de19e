"""Perturb-then-diagonalize: the front door."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import torch

from wellposed.errors import ArgumentError, ConvergenceError, IllConditionedError, UnstableError, WellposedError
from wellposed.linalg._balance import back_from_lengths, balanced_lengths, to_lengths
from wellposed.linalg._diagonalization import Diagonalization
from wellposed.linalg._eigen import Eigen, eigen
from wellposed.linalg._found import Clock, Found
from wellposed.linalg._matrix import Array, as_matrices, from_unit, norm2, to_unit, unit_of
from wellposed.linalg._request import Request, check_progress, checked_request, checked_seconds
from wellposed.linalg._saved import NUMBERS, TENSORS
from wellposed.linalg._search import search
from wellposed.linalg._spectrum import eigenvalues

_ORDINARY = (1e-100, 1e100)  # the largest entry of A: here squares are floats, and A is taken as it is


def ptd(
    A: Any,
    *,
    method: Literal["auto", "rank-one", "optimized", "gaussian"] = "auto",
    rel: float | int | None = None,
    eps: float | int | None = None,
    cond: float | int | None = None,
    gamma: float | int | None = None,
    power: Literal[1, 2] = 1,
    norm: Literal["fro", "spectral"] = "fro",
    columns: Literal["optimal", "unit"] = "optimal",
    stable: bool | Literal["keep"] = "keep",
    margin: float | int | None = None,
    real_eigenvalues: Literal["allow", "avoid"] = "allow",
    field: Literal["auto", "complex"] = "auto",
    seed: int = 0,
    balance: bool = False,
    time_limit: float | int | None = None,
    progress: Callable[[str], None] | None = None,
) -> Diagonalization:
    """Perturb ``A`` by a hair, diagonalise ``A + E``, and say how far that is.

    One knob sets the size of the perturbation (``rel=0.1`` if none is given):

    - ``rel``: ``||E|| = rel ||A||``, spectral norms. Less, down to a quarter, only where the spectrum asked for
      (``stable``, ``margin``, ``real_eigenvalues``) is not found at that size, or, beyond 0.25, where less does better;
    - ``eps``: ``||E|| = eps``;
    - ``cond``: the smallest perturbation found whose eigenvectors have this condition number;
    - ``gamma``: the minimiser of ``kappa(V)^power + gamma ||E||`` in the Frobenius or spectral ``norm``. The paper's
      tables are ``power=2, norm="fro", columns="unit"``.

    ``columns="unit"`` returns a ``V`` with columns of length 1, and makes ``gamma`` weigh its condition number;
    ``condition`` is the infimum over all lengths in any case.

    ``method``: ``"rank-one"`` is a closed form, 15 ms for n = 32 and a second for n = 256; ``"optimized"`` refines it
    by L-BFGS; ``"gaussian"`` is a seeded Ginibre matrix (Theorem 4); ``"auto"`` takes none where none is needed, the
    closed form where it comes within 27 % (20 % for perturbations below 2 % of ``A``) of what a few dozen steps of
    descent reach from several starts, and else what these reach.

    A real ``A`` gets a real ``E`` (unless ``field="complex"``), so its eigenvalues come in conjugate pairs.
    ``stable="keep"``: a stable ``A`` gets a stable neighbour (unless a random one is asked for, which is what it is).
    ``True`` asks for ``max Re(Lambda) < 0`` in any case, by more than rounding could make of an eigenvalue on the axis
    (kappa(V) times a few ulp of ``||A + E||``), ``margin`` also for ``<= -margin``, ``False`` for nothing; where that
    is not reached an error says what was. ``real_eigenvalues="avoid"`` asks for conjugate pairs only, and one real
    eigenvalue where n is odd.

    ``balance``: work in LAPACK's balanced coordinates, for matrices whose entries differ by many powers of ten: sizes
    and condition numbers count there, and ``d.balanced`` has them. ``E`` and ``V`` are in the coordinates of ``A``.

    ``time_limit``: seconds after which a search returns the best it has, per matrix; it then depends on the machine, as
    nothing else here does. ``progress``: called with a line of text about once a second, ``print`` for instance.

    >>> from wellposed.hippo import legs
    >>> d = ptd(legs(32)[0], rel=0.1, stable=True)
    >>> d.method, round(d.rel, 3), round(d.condition, 1)
    ('rank-one', 0.1, 3.5)
    """
    arrays, device = as_matrices(A)
    arrays = arrays.astype(complex if field == "complex" else arrays.dtype)
    request = checked_request(
        {"rel": rel, "eps": eps, "cond": cond, "gamma": gamma},
        method=method,
        power=power,
        norm=norm,
        columns=columns,
        stable=stable,
        margin=margin,
        real_eigenvalues=real_eigenvalues,
        field=field,
        seed=seed,
        complex_valued=np.iscomplexobj(arrays),
    )
    seconds = checked_seconds(time_limit)
    if not isinstance(balance, bool | np.bool_):
        raise ArgumentError(f"balance must be True or False, got {balance!r}")
    check_progress(progress)
    batch = arrays.shape[:-2]
    results = []
    for index in np.ndindex(batch):
        try:
            results.append(_diagonalize(arrays[index], request, Clock(seconds, progress), bool(balance)))
        except WellposedError as error:
            if not batch:
                raise
            raise type(error)(f"A[{', '.join(map(str, index))}]: {error}") from None
    return _stack(results, batch, device)


def _diagonalize(A: Array, request: Request, clock: Clock, balance: bool) -> Diagonalization:
    """One matrix; in balanced coordinates first, where that was asked for."""
    lengths = balanced_lengths(A) if balance else np.ones(len(A))
    B = to_lengths(A, lengths)
    unit, found, unit_columns = _searched(B, request, clock)
    d = _measured(B, unit, found, unit_columns)
    if not balance:
        return d
    back = found._replace(result=back_from_lengths(to_unit(A, unit), found.result, lengths))
    return dataclasses.replace(_measured(A, unit, back, unit_columns), balanced=d)


def _searched(A: Array, request: Request, clock: Clock) -> tuple[float, Found, bool]:
    """A unit in which nothing overflows or vanishes, what was found in it, and whether unit columns were asked for."""
    top = np.abs([A.real, A.imag]).max()
    unit = 1.0 if _ORDINARY[0] < top < _ORDINARY[1] else unit_of(A)
    A = to_unit(A, unit)
    size, plain = norm2(A), eigen(A, np.zeros_like(A))
    request = request.scaled_to(size, unit).keeping(plain, size)
    found = search(A, request, plain, clock)
    _refuse(A, request, found.result, found.method, ", or a longer time_limit" if clock.over else "")
    return unit, found, request.unit_columns


def _measured(given: Array, unit: float, found: Found, unit_columns: bool) -> Diagonalization:
    """Every number of the result recomputed from the matrices returned: nothing rests on what a search believed."""
    A = to_unit(given, unit)
    result, method, converged, start = found
    scaling, size = result.scaling, norm2(A) or 1.0
    d = np.ones(len(A)) if unit_columns else scaling.d
    V, V_inv = result.V * d, result.W / d[:, None]
    # With unit columns, whatever was asked for: a residual must not depend on the lengths of V.
    residual = norm2((A + result.E) @ result.V - result.V * result.lam)
    Lambda, E = from_unit(unit, result.lam, result.E)
    return Diagonalization(
        Lambda=torch.from_numpy(Lambda),
        V=torch.from_numpy(V),
        V_inv=torch.from_numpy(V_inv),
        E=torch.from_numpy(np.ascontiguousarray(E)),
        condition=scaling.condition,
        condition_lower=scaling.lower,
        rel=norm2(result.E) / size,
        residual=residual / size,
        backward_error=norm2(A - (V * result.lam) @ V_inv) / size,
        abscissa=unit * result.abscissa,
        gap=unit * result.gap,
        method=method,
        converged=converged,
        A=torch.from_numpy(np.array(given)),
        start=start,
    )


def _refuse(A: Array, request: Request, result: Eigen, method: str, longer: str) -> None:
    """Say what is wrong with a result that is not what was asked for, and which knob to turn."""
    if request.margin is not None and not request.stable(result):
        raise UnstableError(_why_unstable(A, request, request.margin, result, method) + longer)
    if request.avoid_real and result.real_eigenvalues > len(A) % 2:
        seed = " or seed" if request.method == "gaussian" else ""
        raise ConvergenceError(
            f"{result.real_eigenvalues} real eigenvalues remain: try another {request.knob}{seed}, "
            "or real_eigenvalues='allow'"
        )
    if not result.balanced_condition < 1 / np.finfo(float).eps:
        also = "" if request.tries_everything else ", or method='auto'"
        raise IllConditionedError(
            f"A + E is still defective to working precision, kappa(V) = {result.balanced_condition:.3g}, "
            f"with ||E|| = {request.unit * norm2(result.E):.3g} ({method}): take {request.knob_change(1)}{also}"
        )


def _why_unstable(A: Array, request: Request, margin: float, result: Eigen, method: str) -> str:
    aim = "negative" if margin < 1e-300 else f"at most {-request.unit * margin:g}"
    doubt = result.certain_abscissa - result.abscissa
    if result.abscissa <= -margin and np.isfinite(doubt):
        aim += f" by more than rounding can fake ({request.unit * doubt:.2g})"
    if norm2(A) == 0:
        return f"max Re(Lambda) is to be {aim}, but A is zero: shift it, A - delta I"
    reached = (
        f"max Re(Lambda) is to be {aim}, reached {request.unit * result.abscissa:.4g} with ||E||/||A|| = "
        f"{norm2(result.E) / norm2(A):.3g} ({method}): "
    )
    mean, spent = float(np.trace(A).real) / len(A), max(norm2(result.E), request.eps or 0.0)
    if mean - spent > -margin:  # tr(A + E) is the sum of Lambda, and |tr(E)| <= n ||E||
        return reached + (
            f"no E of this size does, as the mean of Re(Lambda) is {request.unit * mean:.4g} for A and moves by "
            f"at most ||E|| = {request.unit * spent:.4g}; shift A, A - delta I, or take {request.knob_change(1)}"
        )
    own = float(eigenvalues(A).real.max())
    larger = f"{request.knob_change(1)} (A itself has {request.unit * own:.4g})"
    size = request.knob_change(-1) + _dissipative(A, request, margin) if own <= -margin else larger
    milder = "" if margin < 1e-300 else " or a smaller margin"
    let_go = ", or stable=False, which lets it go" if request.keep else ""
    return reached + f"take {size}{milder}" + ("" if request.tries_everything else ", or method='optimized'") + let_go


def _dissipative(A: Array, request: Request, margin: float) -> str:
    """The size from which a multiple of the identity alone moves the numerical range of A past the margin.

    Only a method that may choose such a perturbation gains from it: one that draws E crosses the axis all the more.
    """
    if not request.tries_everything:
        return ""
    enough = 1.05 * (float(np.linalg.eigvalsh((A + A.conj().T) / 2)[-1]) + margin)
    size = {"rel": enough / norm2(A), "eps": request.unit * enough}.get(request.knob)
    return "" if size is None or size <= request.amount else f", or {request.knob} >= {size:.2g}"


def _stack(results: list[Diagonalization], batch: tuple[int, ...], device: torch.device) -> Diagonalization:
    """One diagonalisation for the batch, on the device the matrices came from."""
    parts = [r.balanced for r in results if r.balanced is not None]
    balanced = _stack(parts, batch, device) if parts else None
    if not batch:
        first = results[0]
        tensors = {name: getattr(first, name).to(device) for name in (*TENSORS, "A")}
        return dataclasses.replace(first, **tensors, balanced=balanced)
    tensors = {
        name: torch.stack([getattr(r, name) for r in results])
        .reshape(*batch, *getattr(results[0], name).shape)
        .to(device)
        for name in (*TENSORS, "A")
    }
    numbers = {
        name: torch.tensor([getattr(r, name) for r in results], dtype=torch.float64).reshape(batch) for name in NUMBERS
    }
    methods = ", ".join(sorted({r.method for r in results}))
    starts = ", ".join(sorted({r.start for r in results if r.start}))
    converged = all(r.converged for r in results)
    return Diagonalization(**tensors, **numbers, method=methods, converged=converged, start=starts, balanced=balanced)
