"""HiPPO matrices, and their split into a normal part and a low-rank correction.

Every measure here satisfies ``A = N - P P^T`` with ``N`` a skew-symmetric matrix plus a multiple of the identity.
Sources: Gu et al., HiPPO (2020), for LegS, LegT and LagT; Gu et al., How to train your HiPPO (2022), for FouT;
docs/devdocs/hippo.md derives the splits.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal, NamedTuple, SupportsIndex

import torch
from jaxtyping import Float64
from torch import Tensor

from wellposed._checks import positive_int
from wellposed.errors import ArgumentError, UnknownNameError

__all__ = ["MEASURES", "Split", "fout", "lagt", "legs", "legt", "split"]

Pair = tuple[Float64[Tensor, "n n"], Float64[Tensor, " n"]]


class Split(NamedTuple):
    """``A = N - P P^T``: a normal matrix and a correction whose rank is the number of columns of ``P``."""

    N: Float64[Tensor, "n n"]
    P: Float64[Tensor, "n rank"]


def _odd_roots(n: int) -> Float64[Tensor, " n"]:
    return torch.arange(1, 2 * n, 2, dtype=torch.float64).sqrt()  # sqrt(2j - 1), j = 1..n


def legs(n: SupportsIndex, *, scale: Literal["paper", "s4"] = "paper") -> Pair:
    """HiPPO-LegS: the Legendre coefficients of the whole past.

    ``scale="paper"`` gives the paper's ``B[j] = sqrt((2j-1)/2)``, for which ``A = N - B B^T``;
    ``scale="s4"`` gives the ``sqrt(2j-1)`` of the S4 literature, for which ``A = N - B B^T / 2``.
    ``A`` is the same for both.

    >>> A, B = legs(2)
    >>> [[round(x, 3) for x in row] for row in A.tolist()]
    [[-1.0, 0.0], [-1.732, -2.0]]
    """
    n = positive_int(n, "n")
    if scale not in ("paper", "s4"):
        raise UnknownNameError("scale", scale, ("paper", "s4"))
    r = _odd_roots(n)
    A = torch.outer(r, -r).tril(-1) - torch.arange(1, n + 1, dtype=torch.float64).diag()
    return A, r if scale == "s4" else r / 2**0.5


def legt(n: SupportsIndex) -> Pair:
    """HiPPO-LegT: the Legendre coefficients of a sliding window of length 1.

    >>> A, B = legt(2)
    >>> [[round(x, 3) for x in row] for row in A.tolist()]
    [[-1.0, 1.732], [-1.732, -3.0]]
    """
    n = positive_int(n, "n")
    r = _odd_roots(n)
    j = torch.arange(n)
    sign = torch.where(j[:, None] < j, (-1.0) ** (j[:, None] - j).abs(), 1.0)
    return -torch.outer(r, r) * sign, r


def lagt(n: SupportsIndex, *, beta: float = 0.0) -> Pair:
    """HiPPO-LagT: the Laguerre coefficients of an exponentially fading past, with tilt ``beta``.

    The diagonal is ``-(1 + beta) / 2``; the default is the untilted matrix that published code uses.

    >>> lagt(2)[0].tolist()
    [[-0.5, 0.0], [-1.0, -0.5]]
    """
    n = positive_int(n, "n")
    if not math.isfinite(beta):
        raise ArgumentError(f"beta must be a finite number, got {beta}")
    ones = torch.ones(n, n, dtype=torch.float64)
    return (-ones).tril(-1) - (1 + beta) / 2 * torch.eye(n, dtype=torch.float64), ones[0].clone()


def fout(n: SupportsIndex) -> Pair:
    """HiPPO-FouT: the Fourier coefficients of a sliding window of length 1, ordered 1, cos, sin, cos, sin, ...

    Take ``n`` odd: for even ``n`` the last cosine lacks its sine and leaves a pole at 0.

    >>> A, B = fout(3)
    >>> [[round(x, 3) for x in row] for row in A.tolist()]
    [[-2.0, -2.828, 0.0], [-2.828, -4.0, -6.283], [0.0, 6.283, 0.0]]
    """
    n = positive_int(n, "n")
    N, P = _split_fout(n)
    return N - P @ P.mT, P[:, 0] * 2**0.5


def _split_legs(n: int) -> Split:
    B = _odd_roots(n)
    half = torch.outer(B, B) / 2
    N = half.triu(1) - half.tril(-1) - torch.eye(n, dtype=torch.float64) / 2
    return Split(N, B[:, None] / 2**0.5)


def _split_legt(n: int) -> Split:
    r = _odd_roots(n)
    j = torch.arange(n)
    odd = (j[:, None] - j) % 2 == 1
    S = torch.where(odd, torch.outer(r, r), 0.0)
    P = torch.stack([torch.where(j % 2 == k, r, 0.0) for k in range(min(n, 2))], dim=1)
    return Split(S.triu(1) - S.tril(-1), P)


def _split_lagt(n: int, beta: float = 0.0) -> Split:
    half = torch.full((n, n), 0.5, dtype=torch.float64)
    N = half.triu(1) - half.tril(-1) - beta / 2 * torch.eye(n, dtype=torch.float64)
    return Split(N, torch.full((n, 1), 0.5**0.5, dtype=torch.float64))


def _split_fout(n: int) -> Split:
    j = torch.arange(n)
    # Coupling of cos_k (index 2k - 1) with sin_k (index 2k), frequency 2 pi k.
    d = torch.where(j[1:] % 2 == 0, torch.pi * j[1:].to(torch.float64), 0.0)
    N = torch.diag(d, -1) - torch.diag(d, 1)
    P = torch.where(j % 2 == 1, 2.0, 0.0).to(torch.float64)
    P[0] = 2**0.5
    return Split(N, P[:, None])


MEASURES: dict[str, Callable[..., Pair]] = {"legs": legs, "legt": legt, "lagt": lagt, "fout": fout}
"""The measures by name, as ``split`` and the command line know them."""


def split(measure: str, n: SupportsIndex, **options: float) -> Split:
    """Split a HiPPO matrix into its normal part and its low-rank correction, ``A = N - P P^T``.

    The rank is 2 for LegT and 1 for the others. ``options`` are those of the measure (``beta`` for LagT).

    >>> N, P = split("legs", 4)
    >>> bool(torch.allclose(N - P @ P.mT, legs(4)[0]))
    True
    """
    splits = {"legs": _split_legs, "legt": _split_legt, "lagt": _split_lagt, "fout": _split_fout}
    if measure not in splits:
        raise UnknownNameError("measure", measure, splits)
    return splits[measure](positive_int(n, "n"), **options)
