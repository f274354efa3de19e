"""Perturb-then-diagonalize: the front door."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch

from wellposed.errors import ArgumentError, ConvergenceError, IllConditionedError, UnknownNameError, UnstableError
from wellposed.linalg._diagonalization import NUMBERS, Diagonalization
from wellposed.linalg._eigen import Eigen, eigen
from wellposed.linalg._gaussian import gaussian
from wellposed.linalg._low_rank import low_rank_candidates
from wellposed.linalg._matrix import Array, as_matrices, norm2
from wellposed.linalg._optimized import Problem, refine, value

METHODS = ("auto", "rank-one", "optimized", "gaussian")
_WELL_CONDITIONED = 10.0  # below this nobody needs a perturbation
_WORTH = 2.0  # "auto" perturbs only where that lowers the condition number by this factor
_SMALLER = (0.7, 0.5, 0.35, 0.25)  # of the size asked for
_BEYOND = 0.25  # of ||A||: where more perturbation stops helping a stable spectrum
_DRAWS = 4  # random matrices tried where the closed form does not do well
_SECANTS = 20
_STARTS = 3  # places the optimiser starts from; one is enough for large matrices, whose minima are all alike
_LARGE = 64


@dataclass(frozen=True)
class _Ask:
    """The wishes of one call, checked."""

    method: str
    eps: float | None
    cond: float | None
    gamma: float | None
    power: int
    norm: str
    unit_columns: bool
    margin: float | None
    avoid_real: bool
    complex_valued: bool
    seed: int

    def pleases(self, result: Eigen) -> bool:
        """Whether a candidate meets the wishes about its spectrum."""
        stable = self.margin is None or result.abscissa <= -self.margin
        return stable and (not self.avoid_real or result.real_eigenvalues <= len(result.lam) % 2)

    def rank(self, result: Eigen) -> tuple[bool, float]:
        """Sort key: wishes first, then the condition number."""
        return (not self.pleases(result), result.balanced)

    def choose(self, candidates: Iterable[Eigen]) -> Eigen:
        """The best candidate; among those within 5 % of it, the one with fewest real eigenvalues.

        A real eigenvalue takes as much room in a layer as a whole conjugate pair.
        """
        found = sorted(candidates, key=self.rank)
        close = [
            c for c in found if self.pleases(c) == self.pleases(found[0]) and c.balanced <= 1.05 * found[0].balanced
        ]
        return min(close, key=lambda c: c.real_eigenvalues)


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
    stable: bool = False,
    margin: float | int | None = None,
    real_eigenvalues: Literal["allow", "avoid"] = "allow",
    field: Literal["auto", "complex"] = "auto",
    seed: int = 0,
) -> Diagonalization:
    """Perturb ``A`` by a hair, diagonalise ``A + E``, and say how far that is.

    One knob sets the size of the perturbation (``rel=0.1`` if none is given):

    - ``rel``: ``||E|| = rel ||A||``, spectral norms (less only where ``stable`` cannot be had at that size);
    - ``eps``: ``||E|| = eps``;
    - ``cond``: the smallest perturbation found whose eigenvectors have this condition number;
    - ``gamma``: the minimiser of ``kappa(V)^power + gamma ||E||`` in the Frobenius or spectral ``norm``. The paper's
      tables are ``power=2, norm="fro", columns="unit"``.

    ``method``: ``"rank-one"`` is a closed form, milliseconds; ``"optimized"`` refines it by L-BFGS; ``"gaussian"`` is a
    seeded Ginibre matrix (Theorem 4); ``"auto"`` takes the cheapest that does well, and none where none is needed.

    A real ``A`` gets a real ``E`` (unless ``field="complex"``), so its eigenvalues come in conjugate pairs. ``stable``
    asks for ``max Re(Lambda) < 0``, ``margin`` for ``<= -margin``; where that is not reached an error says what was.

    >>> from wellposed.hippo import legs
    >>> d = ptd(legs(32)[0], rel=0.1, stable=True)
    >>> d.method, round(d.rel, 3), round(d.condition, 1)
    ('rank-one', 0.1, 3.5)
    """
    arrays, device = as_matrices(A)
    knobs = {"rel": rel, "eps": eps, "cond": cond, "gamma": gamma}
    given = _check(knobs, method, power, norm, columns, margin, real_eigenvalues, field, seed)
    results = []
    for M in arrays.reshape(-1, *arrays.shape[-2:]).astype(complex if field == "complex" else arrays.dtype):
        size = norm2(M)
        ask = _Ask(
            method=method,
            eps=size * given["rel"] if "rel" in given else given.get("eps"),
            cond=given.get("cond"),
            gamma=given.get("gamma"),
            power=power,
            norm=norm,
            unit_columns=columns == "unit",
            margin=margin if margin is not None else float(np.nextafter(0, 1)) if stable else None,
            avoid_real=real_eigenvalues == "avoid",
            complex_valued=np.iscomplexobj(M),
            seed=seed,
        )
        results.append(_finish(M, ask, *_solve(M, ask)))
    return _stack(results, arrays.shape[:-2], device)


def _check(
    knobs: dict[str, float | int | None],
    method: str,
    power: int,
    norm: str,
    columns: str,
    margin: float | int | None,
    real_eigenvalues: str,
    field: str,
    seed: int,
) -> dict[str, float]:
    """The one knob that was given, after everything has been looked at."""
    for kind, name, known in (
        ("method", method, METHODS),
        ("norm", norm, ("fro", "spectral")),
        ("columns", columns, ("optimal", "unit")),
        ("real_eigenvalues", real_eigenvalues, ("allow", "avoid")),
        ("field", field, ("auto", "complex")),
    ):
        if name not in known:
            raise UnknownNameError(kind, name, known)
    given = {name: float(number) for name, number in knobs.items() if number is not None}
    if len(given) > 1:
        text = ", ".join(f"{name} = {number:g}" for name, number in given.items())
        raise ArgumentError(f"one knob sets the size of the perturbation, got {text}: drop all but one")
    given = given or {"rel": 0.1}
    ((name, number),) = given.items()
    if not (np.isfinite(number) and number > 0):
        raise ArgumentError(f"{name} must be a positive number, got {number:g}")
    if name == "cond" and number < 1:
        raise ArgumentError(f"cond = {number:g}: no matrix has a condition number below 1")
    if name == "gamma" and method not in ("auto", "optimized"):
        raise ArgumentError(f"gamma = {number:g} weighs a penalty: it goes with method='optimized', not {method!r}")
    if seed < 0:
        raise ArgumentError(f"seed must not be negative, got {seed}")
    if power not in (1, 2):
        raise ArgumentError(f"power must be 1 or 2, got {power}")
    if margin is not None and not (np.isfinite(margin) and margin > 0):
        raise ArgumentError(f"margin must be a positive number, got {margin:g}; for max Re < 0 pass stable=True")
    return given


def _solve(A: Array, ask: _Ask) -> tuple[Eigen, str, bool]:
    """A perturbation, the name of what found it, and whether that converged."""
    plain = eigen(A, np.zeros_like(A))
    if (norm2(A) == 0 and ask.eps is None) or ask.eps == 0:
        return plain, "none", True  # nothing to measure a perturbation by
    normal = plain.balanced < 1 + 1e-6  # needs nothing, whoever asks
    if ask.gamma is not None:
        return (plain, "none", True) if normal and ask.pleases(plain) else _solve_gamma(A, ask, plain)
    enough = _WELL_CONDITIONED if ask.cond is None else ask.cond
    if (normal or ask.method == "auto") and plain.balanced <= enough and ask.pleases(plain):
        return plain, "none", True
    if ask.cond is not None:
        return _solve_cond(A, ask, ask.cond)
    assert ask.eps is not None
    found = _perturb(A, ask, ask.eps)
    worth = np.isfinite(plain.balanced) and plain.balanced <= _WORTH * found[0].balanced
    if ask.method == "auto" and worth and ask.pleases(plain):
        return plain, "none", True
    return found


def _perturb(A: Array, ask: _Ask, eps: float) -> tuple[Eigen, str, bool]:
    """The method asked for, at a given size; smaller only where the spectrum asked for cannot be had at full size."""
    if ask.method == "gaussian":
        return gaussian(A, eps, ask.seed, complex_valued=ask.complex_valued), "gaussian", True
    best = ask.choose(low_rank_candidates(A, eps))
    if not ask.pleases(best) or (ask.margin is not None and eps > _BEYOND * norm2(A)):
        smaller = (ask.choose(low_rank_candidates(A, factor * eps)) for factor in _SMALLER)
        best = min([best, *smaller], key=ask.rank)
    if ask.method == "rank-one":
        return best, "rank-one", True
    found = [(best, "rank-one", True)]
    if best.balanced > _good(norm2(A) / eps) or not ask.pleases(best):
        wide = ask.choose(low_rank_candidates(A, eps, rank=None))
        found.append((wide, f"rank-{np.linalg.matrix_rank(wide.E, tol=1e-8 * eps)}", True))
        draws = (gaussian(A, eps, ask.seed + k, complex_valued=ask.complex_valued) for k in range(_DRAWS))
        found += [(draw, "gaussian", True) for draw in draws]
        found.sort(key=lambda item: ask.rank(item[0]))
    if ask.method == "auto" and ask.pleases(found[0][0]):
        return found[0]
    problem = Problem(A, eps=eps, **_penalty(A, ask))
    for start in [item[0] for item in found[: _starts(A)] if np.isfinite(item[0].balanced)]:
        result, converged = refine(problem, start)
        found.append((result, "optimized", converged))
    return min(found, key=lambda item: ask.rank(item[0]))


def _good(inverse_rel: float) -> float:
    """A condition number below which nothing else is worth trying: what rank-one reaches on HiPPO matrices, times 3."""
    return 3 * (1 + 0.5 * inverse_rel)


def _starts(A: Array) -> int:
    return _STARTS if len(A) < _LARGE else 1


def _penalty(A: Array, ask: _Ask) -> dict[str, Any]:
    """What keeps the optimiser stable: a margin a little wider than asked for, at least half of A's own."""
    if ask.margin is None:
        return {}
    own = -float(np.linalg.eigvals(A).real.max())
    return {"margin": max(1.02 * ask.margin, 0.5 * own, 1e-6 * norm2(A)), "scale": max(abs(own), 1e-3 * norm2(A))}


def _solve_gamma(A: Array, ask: _Ask, plain: Eigen) -> tuple[Eigen, str, bool]:
    """The minimiser of ``kappa^power + gamma ||E||``, from closed forms of several sizes."""
    assert ask.gamma is not None
    problem = Problem(
        A, gamma=ask.gamma, power=ask.power, norm=ask.norm, unit_columns=ask.unit_columns, **_penalty(A, ask)
    )
    size = norm2(A)
    starts = [c for rel in np.logspace(-6, 0, 13) for c in low_rank_candidates(A, size * rel, thorough=False)]
    starts = sorted((s for s in starts if np.isfinite(s.balanced)), key=lambda start: value(problem, start))
    found = [(plain, "none", True)]
    for start in starts[: _starts(A)]:
        result, converged = refine(problem, start)
        found.append((result, "optimized", converged))
    return min(found, key=lambda item: (not ask.pleases(item[0]), value(problem, item[0])))


def _solve_cond(A: Array, ask: _Ask, target: float) -> tuple[Eigen, str, bool]:
    """The smallest perturbation of the family whose condition number is the target: secants in log-log, bracketed."""
    size = norm2(A)
    low, high, best = 0.0, 1.0, None
    rel, slope = min(0.3, 0.5 / target), -0.85
    last: tuple[float, float] | None = None
    reached = np.inf
    for _ in range(_SECANTS):
        found = _perturb(A, ask, size * rel)
        kappa = found[0].scaling.condition if np.isfinite(found[0].balanced) else np.inf
        if ask.pleases(found[0]):
            reached = min(reached, kappa)
        if kappa <= target and ask.pleases(found[0]):
            high, best = rel, found
            if kappa >= 0.99 * target:
                break
        else:
            low = rel
        if last is not None and np.isfinite(kappa) and rel != last[0]:
            slope = float(np.clip(np.log(kappa / last[1]) / np.log(rel / last[0]), -2, -0.3))
        last = (rel, kappa) if np.isfinite(kappa) else last
        guess = rel * (0.995 * target / kappa) ** (1 / slope) if np.isfinite(kappa) else 0.0
        rel = guess if low < guess < high else float(np.sqrt(max(low, 1e-16) * high))
        if high / max(low, 1e-300) < 1.001:
            break
    if best is None:
        raise ConvergenceError(
            f"cond = {target:g} is not reached by a perturbation smaller than A itself: the best found is "
            f"{reached:.4g}; ask for a larger cond, or set the size of the perturbation (rel)"
        )
    return best


def _finish(A: Array, ask: _Ask, result: Eigen, method: str, converged: bool) -> Diagonalization:
    """Everything recomputed from what is returned."""
    if ask.margin is not None and result.abscissa > -ask.margin:
        wish = "negative" if ask.margin < 1e-300 else f"at most {-ask.margin:g}"
        raise UnstableError(
            f"max Re(Lambda) is to be {wish}, reached {result.abscissa:.4g} with ||E||/||A|| = "
            f"{norm2(result.E) / max(norm2(A), 1e-300):.3g} ({method}): take a smaller rel or margin, "
            "or method='optimized'"
        )
    if ask.avoid_real and result.real_eigenvalues > len(A) % 2:
        raise ConvergenceError(
            f"{result.real_eigenvalues} real eigenvalues remain: try another rel or seed, or real_eigenvalues='allow'"
        )
    if not result.balanced < 1 / np.finfo(float).eps:
        raise IllConditionedError(
            f"A + E is still defective to working precision, kappa(V) = {result.balanced:.3g}, with ||E|| = "
            f"{norm2(result.E):.3g} ({method}): take a larger rel, or method='auto'"
        )
    size = norm2(A)
    scaling = result.scaling
    d = np.ones(len(A)) if ask.unit_columns else scaling.d
    V, V_inv = result.V * d, result.W / d[:, None]
    residual = norm2((A + result.E) @ result.V - result.V * result.lam)
    backward = norm2(A - (V * result.lam) @ V_inv)
    unit = size if size > 0 else 1.0
    return Diagonalization(
        Lambda=torch.from_numpy(result.lam),
        V=torch.from_numpy(V),
        V_inv=torch.from_numpy(V_inv),
        E=torch.from_numpy(np.ascontiguousarray(result.E)),
        condition=scaling.condition,
        condition_lower=scaling.lower,
        rel=norm2(result.E) / unit,
        residual=residual / unit,
        backward_error=backward / unit,
        abscissa=result.abscissa,
        gap=result.gap,
        method=method,
        converged=converged,
    )


def _stack(results: list[Diagonalization], batch: tuple[int, ...], device: torch.device) -> Diagonalization:
    """One diagonalisation for the batch, on the device the matrices came from."""
    if not batch:
        first = results[0]
        return dataclasses.replace(first, **{name: getattr(first, name).to(device) for name in _TENSORS})
    tensors = {
        name: torch.stack([getattr(r, name) for r in results])
        .reshape(*batch, *getattr(results[0], name).shape)
        .to(device)
        for name in _TENSORS
    }
    numbers = {
        name: torch.tensor([getattr(r, name) for r in results], dtype=torch.float64).reshape(batch) for name in NUMBERS
    }
    methods = ", ".join(sorted({r.method for r in results}))
    return Diagonalization(**tensors, **numbers, method=methods, converged=all(r.converged for r in results))


_TENSORS = ("Lambda", "V", "V_inv", "E")
