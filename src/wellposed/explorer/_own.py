"""Any matrix for the page: its Schur form, a table of perturbations, and their certificates."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from wellposed._checks import as_tensor
from wellposed.errors import ArgumentError, IllConditionedError, ShapeError, UnstableError
from wellposed.explorer._subject import LARGEST, RELS, Data, Subject, Track, cell, distance, floats, no_track
from wellposed.linalg import Diagonalization, ptd
from wellposed.systems import DenseSystem

_CERTIFIED = 32
"""States up to which distances are certified: a dense resolvent costs n^3 at each of thousands of frequencies."""
_GROWTH = math.log(1e5)
_LARGEST_NORM = 1e100
"""Squares must neither overflow nor vanish, in the page too."""


def own_subject(
    A: Any, B: Any = None, *, title: str = "your matrix", rels: Sequence[float] = RELS, track: Track = no_track
) -> Subject:
    """A matrix with up to 128 rows, driven through ``B`` (every state alike if not given), perturbed by every size."""
    A = as_tensor(A, "the matrix")
    A = A.to(torch.complex128 if A.is_complex() else torch.float64)
    n = A.shape[-1]
    if A.ndim != 2 or A.shape[0] != n or not 2 <= n <= LARGEST:
        raise ShapeError(f"the page takes one square matrix with 2 to {LARGEST} rows, not shape {tuple(A.shape)}")
    if not bool(A.isfinite().all()):
        raise ArgumentError("the matrix holds NaN or infinity")
    if not bool(A.any()):
        raise ArgumentError("the matrix is zero: there is nothing to explore")
    size = torch.linalg.matrix_norm(A, ord=2).item()
    if not 1 / _LARGEST_NORM <= size <= _LARGEST_NORM:
        raise ArgumentError(
            f"||A|| = {size:.3g} is beyond 1e-100 to 1e100, as far as the page computes: scale the matrix"
        )
    B = _input(B, A)
    rows = sorted({1, math.ceil(n / 2), n})
    cells = [_perturbed(A, B, rows, rel) for rel in track(rels)]
    cells = [made for made in cells if made is not None]
    if not cells:
        raise IllConditionedError(f"none of the sizes {', '.join(f'{rel:g}' for rel in rels)} made it diagonalisable")
    start = _start(A, B, rows)
    return Subject(title, [start | {"cells": _distinct(cells)}], duration=_duration(start, cells))


def _distinct(cells: list[Data]) -> list[Data]:
    """Where nothing had to be perturbed all sizes are the same, and one will do."""
    return [made for k, made in enumerate(cells) if k == 0 or made["norm"] != cells[k - 1]["norm"]]


def _duration(start: Data, cells: list[Data]) -> float:
    """Until the slowest mode has settled; where something grows, until it has grown a hundred thousand times.

    Three periods of the wave that the page begins with, norm / 10, are seen in any case that does not grow.
    """
    slowest = max(-start["abscissa"], 1e-3 * start["norm"])
    settled = max(3 / slowest, 6 * math.pi / (start["norm"] / 10))
    growth = max(part["abscissa"] for part in (start, *cells))
    return min(settled, _GROWTH / growth) if growth > 0 else settled


def _input(B: Any, A: Tensor) -> Tensor:
    n = len(A)
    if B is None:
        return torch.ones(n, dtype=A.dtype)
    B = as_tensor(B, "B").reshape(-1)
    if len(B) != n:
        raise ShapeError(f"B has {len(B)} entries, and the matrix {n} rows")
    if B.is_complex() and not A.is_complex():
        raise ArgumentError("B is complex and the matrix real: give the matrix as complex numbers, or B without")
    if not bool(B.isfinite().all()):
        raise ArgumentError("B holds NaN or infinity")
    return B.to(A.dtype)


def _start(A: Tensor, B: Tensor, rows: list[int]) -> Data:
    from scipy.linalg import schur

    T, Z = (torch.from_numpy(part) for part in schur(A.to(torch.complex128).numpy(), output="complex")[:2])
    n, size = len(A), torch.linalg.matrix_norm(A, ord=2).item()
    abscissa = T.diagonal().real.max().item()
    i, j = torch.triu_indices(n, n)
    return {
        "n": n,
        "kind": "own",
        "complex": A.is_complex(),
        "norm": size,
        "rows": rows,
        "T": floats(T[i, j]),
        "b": floats(Z.mH @ B.to(Z.dtype)),
        "c": floats(Z[[l - 1 for l in rows]]),
        "abscissa": 0.0 if abs(abscissa) <= n * 2.0**-52 * size else abscissa,  # on the axis but for rounding
        "box": _box(A, size),
        "omega": [1e-3 * size, 10 * size],
    }


def _box(A: Tensor, size: float) -> list[float]:
    """A little more than the numerical range, and square: both parts to one scale."""
    ends = [torch.linalg.eigvalsh(H)[[0, -1]] for H in ((A + A.mH) / 2, (A - A.mH) / 2j)]
    half = 0.6 * max(max((high - low).item() for low, high in ends), 0.1 * size)
    middles = [((low + high) / 2).item() for low, high in ends]
    return [middles[0] - half, middles[0] + half, middles[1] - half, middles[1] + half]


def _perturbed(A: Tensor, B: Tensor, rows: list[int], rel: float) -> Data | None:
    d = _nearby(A, rel)
    if d is None:
        return None
    made = cell(d, B, rows)
    if len(A) > _CERTIFIED:
        return made | {"distances": [None] * len(rows)}
    C = torch.eye(len(A), dtype=A.dtype)
    systems = [DenseSystem(A, B, C[l - 1]) for l in rows]
    return made | {"distances": [distance(system, system.diagonalized(d)) for system in systems]}


def _nearby(A: Tensor, rel: float) -> Diagonalization | None:
    """Stable if that can be had; nothing where even the perturbed matrix has no eigenvectors to speak of."""
    for stable in (True, False):
        try:
            return ptd(A, rel=rel, stable=stable)
        except UnstableError:
            continue
        except IllConditionedError:
            return None
    return None
