"""What a page is about, as the plain numbers that travel in it."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from wellposed.errors import ConvergenceError, UnstableError
from wellposed.linalg import Diagonalization
from wellposed.systems import System, linf_distance

RELS = (0.2, 0.1, 0.05, 0.02, 0.01, 1e-3, 1e-4)
"""Sizes of the perturbation relative to the matrix, the largest first."""
LARGEST = 128
"""States at most: beyond it the page would weigh more than a photograph, and answer slower than a hand moves."""
_RTOL = 1e-7
_EVALUATIONS = 20_000  # of a response at most for one distance

Track = Callable[[Iterable[Any]], Iterable[Any]]
"""Wraps what is gone through: a progress bar."""
Data = dict[str, Any]


def no_track(steps: Iterable[Any]) -> Iterable[Any]:
    """Shows nothing."""
    return steps


@dataclass(frozen=True)
class Subject:
    """A matrix, or a family of them, with the perturbations a page offers."""

    title: str
    sizes: list[Data]
    """An entry for each number of states: what ``_legs`` and ``_own`` put there, ``js/model.js`` reads."""
    duration: float
    """How long the page simulates, in the matrix's own time."""


def floats(values: Any) -> str:
    """Numbers as base64 of little-endian float64; complex ones as pairs."""
    array = np.ascontiguousarray(np.asarray(values))
    array = array.astype("<c16" if np.iscomplexobj(array) else "<f8")
    return base64.b64encode(array.tobytes()).decode("ascii")


def cell(d: Diagonalization, B: Tensor, rows: Sequence[int]) -> Data:
    """One perturbation: how large, how good, and the modes of ``A + E`` for every output row."""
    residues = torch.stack([d.V[l - 1] * (d.V_inv @ B.to(d.V.dtype)) for l in rows])
    return {
        "rel": d.rel,
        "norm": d.norm_E,
        "condition": d.condition,
        "abscissa": d.abscissa,
        "method": d.method,
        "lambda": floats(d.Lambda),
        "residues": floats(residues),
    }


def distance(first: System, second: System) -> Data | None:
    """The certified distance of two systems; ``None`` where one is not stable or it takes too long."""
    try:
        found = linf_distance(first, second, rtol=_RTOL, max_evaluations=_EVALUATIONS)
    except (UnstableError, ConvergenceError):
        return None
    return {"value": found.value, "upper": found.upper, "frequency": abs(found.frequency)}
