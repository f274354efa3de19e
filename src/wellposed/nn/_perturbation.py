"""Options of the layers that start from a perturbed matrix."""

from __future__ import annotations

from dataclasses import dataclass

from wellposed.linalg import Diagonalization
from wellposed.nn._initial import Columns, Hippo, Method


@dataclass(frozen=True, eq=False, kw_only=True)
class PerturbationConfig:
    """Which matrix, and how far from it."""

    hippo: Hippo = "legs"
    """A measure by name, or a pair ``(A, B)`` of your own."""
    perturbation: Diagonalization | None = None
    """Ready made, from ``ptd(A, stable=True)``."""
    rel: float | int | None = None
    """Size of the perturbation relative to the matrix; 0.1 if nothing is said."""
    cond: float | int | None = None
    """Condition number of the eigenvectors to reach instead."""
    gamma: float | int | None = None
    """Or the minimiser of ``kappa(V) + gamma ||E||_F``, columns of ``V`` of length 1, as the paper has it."""
    method: Method = "auto"
    """How the perturbation is found, as of ``ptd``; ``"gaussian"`` is a random one, seldom stable unless small."""
    columns: Columns | None = None
    """Lengths of the eigenvectors, as of ``ptd``: ``"unit"`` if gamma is given, else ``"optimal"``."""
