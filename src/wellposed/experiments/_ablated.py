"""The starts that the ablation compares: which matrix is diagonalised, and how far from HiPPO-LegS or -LegT it is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor

from wellposed import hippo
from wellposed.linalg import Diagonalization, ptd

SCALE = "s4"
GAMMAS = tuple(range(-4, 10))
"""Exponents of the paper's weights."""
RANDOM = {2: 1.484e-3, 4: 1.298e-4, 6: 1.155e-5, 8: 1.043e-6}
"""Relative sizes that these weights come to at n = 32, for random perturbations: larger ones are unstable."""
RESCALED = (4, 8)
"""Weights for which eigenvectors are scaled the other way as well: how ``B`` and ``C`` share their size is a choice."""
LEGT = (-1, 1, 4, 7)
"""Weights for the second matrix: HiPPO-LegT, whose eigenvectors are as badly conditioned (2e15 at n = 32)."""


@dataclass(frozen=True)
class Start:
    """How the systems of a model start."""

    kind: str
    """``"gamma"``: as the paper has it, eigenvectors of length 1. Controls are ``"random"``, with the lengths that are
    conditioned best, ``"gamma-optimal"`` and ``"random-unit"``, with the lengths of the other, ``"legt"``, ``"s4d"``
    and ``"s4"``.
    """
    exponent: int | None = None
    """Of gamma, or of the gamma whose size a random perturbation has."""

    @property
    def name(self) -> str:
        """For folders and tables."""
        return self.kind if self.exponent is None else f"{self.kind}-1e{self.exponent}"

    @property
    def _found(self) -> str:
        """The kind without the lengths of the eigenvectors."""
        return self.kind.partition("-")[0]

    @property
    def layer(self) -> str:
        """The layer that starts so."""
        return self.kind if self.kind in ("s4", "s4d") else "s4ptd"

    @property
    def gamma(self) -> float | None:
        """The weight of the size in what is minimised."""
        return None if self.exponent is None or self._found == "random" else 10.0**self.exponent

    @property
    def options(self) -> dict[str, Any]:
        """Of the layer, as a config has them."""
        lengths = {"columns": self.kind.partition("-")[2]} if "-" in self.kind else {}
        match self._found:
            case "gamma":
                return {"gamma": self.gamma, "method": "optimized", **lengths}
            case "legt":
                return {"gamma": self.gamma, "method": "optimized", "hippo": "legt"}
            case "random":
                assert self.exponent is not None
                return {"rel": RANDOM[self.exponent], "method": "gaussian", **lengths}
        return {}

    def matrix(self, n: int) -> Tensor:
        """What is to be diagonalised."""
        return (hippo.legt if self.kind == "legt" else hippo.legs)(n, scale=SCALE)[0]

    def perturbation(self, n: int) -> Diagonalization | None:
        """As the layer makes it; nothing where none is made."""
        return _perturbation(self, n) if self.layer == "s4ptd" else None

    def described(self, n: int) -> dict[str, Any]:
        """Size of the perturbation relative to the matrix, condition number as the paper has it and at best, spectrum.

        S4D drops the low-rank part of the matrix, and what is left is normal; S4 drops nothing, and diagonalises
        nothing.
        """
        about: dict[str, Any] = {"kind": self.kind, "name": self.name, "gamma": self.gamma}
        d = self.perturbation(n)
        if d is not None:
            return about | {"rel": d.rel, "kappa": _kappa(d), "condition": d.condition, "abscissa": d.abscissa}
        if self.kind == "s4":
            return about | {"rel": 0.0, "kappa": None, "condition": None, "abscissa": -1.0}
        P = hippo.split("legs", n).P
        rel = torch.linalg.matrix_norm(P @ P.mT, 2) / torch.linalg.matrix_norm(self.matrix(n), 2)
        return about | {"rel": rel.item(), "kappa": 1.0, "condition": 1.0, "abscissa": -0.5}


@cache
def _perturbation(start: Start, n: int) -> Diagonalization:
    options: dict[str, Any] = {"columns": "optimal" if start.gamma is None else "unit"} | start.options
    options.pop("hippo", None)
    return ptd(start.matrix(n), stable=True, **options)


def _kappa(d: Diagonalization) -> float:
    """Condition number of the eigenvectors of norm 1, as the paper has it; the best scaling has at most as much."""
    return torch.linalg.cond(d.V / torch.linalg.vector_norm(d.V, dim=0)).item()


def random_ones(sizes: list[float], n: int, seed: int = 0) -> Iterator[dict[str, float]]:
    """What a Gaussian perturbation of each size would come to, stable or not."""
    A = hippo.legs(n, scale=SCALE)[0]
    for rel in sizes:
        d = ptd(A, method="gaussian", rel=rel, seed=seed)
        yield {
            "rel": float(d.rel),
            "kappa": _kappa(d),
            "condition": float(d.condition),
            "abscissa": float(d.abscissa),
        }


def order() -> list[list[Start]]:
    """The most telling first: both ends and the middle, the controls, then what is between."""
    first = [Start("gamma", k) for k in (-1, 3, 9, -4)]
    controls = [Start("s4d"), Start("s4"), Start("random", 2), Start("legt", 1)]
    rest = [Start("gamma", k) for k in (0, -2, -3, 1, 6, 2, 4, 5, 7, 8)]
    others = [Start("random", k) for k in (4, 6, 8)] + [Start("legt", k) for k in (-1, 4, 7)]
    rescaled = [Start(kind, k) for k in RESCALED for kind in ("random-unit", "gamma-optimal")]
    return [first, controls, rest[:4], others[:3], rescaled, rest[4:], others[3:]]
