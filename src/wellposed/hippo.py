"""HiPPO matrices, their split into a normal part and a low-rank correction, and the diagonal form of that split.

Every measure here satisfies ``A = N - P P^T`` with ``N`` a skew-symmetric matrix plus a multiple of the identity.
Every function takes a ``scale``: ``"paper"`` (the formulas as derived) or ``"s4"`` (the numbers the published S4 layer
starts from). It changes ``B`` for LegS, the unit of time for LegT and FouT, and nothing for LagT.
Sources: Gu et al., HiPPO (2020), for LegS, LegT and LagT; Gu et al., How to train your HiPPO (2022), for FouT;
docs/devdocs/hippo.md derives the splits.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal, NamedTuple, SupportsIndex

import torch
from jaxtyping import Complex128, Float64
from torch import Tensor

from wellposed._checks import number, one_of, positive_int
from wellposed.errors import ArgumentError
from wellposed.linalg import eig_shifted_skew, gallery

__all__ = ["DPLR", "MEASURES", "Split", "dplr", "fout", "lagt", "legs", "legt", "split"]

Pair = tuple[Float64[Tensor, "n n"], Float64[Tensor, " n"]]
Scale = Literal["paper", "s4"]


class Split(NamedTuple):
    """``A = N - P P^T``: a normal matrix and a correction whose rank is the number of columns of ``P``."""

    N: Float64[Tensor, "n n"]
    P: Float64[Tensor, "n rank"]


class DPLR(NamedTuple):
    """``A = V (diag(Lambda) - P P^*) V^*`` with ``V`` unitary; ``P`` and ``B`` are in the coordinates of ``V``."""

    Lambda: Complex128[Tensor, " n"]
    """Eigenvalues of the normal part; conjugate pairs first, as ``linalg.eig_shifted_skew`` orders them."""
    V: Complex128[Tensor, "n n"]
    P: Complex128[Tensor, "n rank"]
    B: Complex128[Tensor, " n"]


def _check_scale(scale: str) -> str:
    return one_of(scale, "scale", ("paper", "s4"))


def _rate(scale: str) -> float:
    """Speed of a sliding window. The published S4 layer halves ``A`` and ``B``: its window has length 2, not 1."""
    return 0.5 if _check_scale(scale) == "s4" else 1.0


def _odd_roots(n: int) -> Float64[Tensor, " n"]:
    return torch.arange(1, 2 * n, 2, dtype=torch.float64).sqrt()  # sqrt(2j - 1), j = 1..n


def legs(n: SupportsIndex, *, scale: Scale = "paper") -> Pair:
    """HiPPO-LegS: the Legendre coefficients of the whole past.

    ``scale="paper"`` gives the paper's ``B[j] = sqrt((2j-1)/2)``, for which ``A = N - B B^T``;
    ``scale="s4"`` gives the ``sqrt(2j-1)`` of the S4 literature, for which ``A = N - B B^T / 2``.
    ``A`` is the same for both.

    >>> A, B = legs(2)
    >>> [[round(x, 3) for x in row] for row in A.tolist()]
    [[-1.0, 0.0], [-1.732, -2.0]]
    """
    n = positive_int(n, "n")
    r = _odd_roots(n)
    A = torch.outer(r, -r).tril(-1) - torch.arange(1, n + 1, dtype=torch.float64).diag()
    return A, r if _check_scale(scale) == "s4" else r / 2**0.5


def legt(n: SupportsIndex, *, scale: Scale = "paper") -> Pair:
    """HiPPO-LegT: the Legendre coefficients of a sliding window of length 1.

    ``scale="s4"`` halves ``A`` and ``B``, as the published S4 layer does: the window then has length 2, and the system
    answers to a step ``dt`` as this one does to ``dt / 2``.

    >>> A, B = legt(2)
    >>> [[round(x, 3) for x in row] for row in A.tolist()]
    [[-1.0, 1.732], [-1.732, -3.0]]
    """
    n = positive_int(n, "n")
    r = _odd_roots(n)
    j = torch.arange(n)
    sign = torch.where(j[:, None] < j, (-1.0) ** (j[:, None] - j).abs(), 1.0)
    rate = _rate(scale)
    return -rate * torch.outer(r, r) * sign, rate * r


def lagt(n: SupportsIndex, *, beta: float = 0.0, scale: Scale = "paper") -> Pair:
    """HiPPO-LagT: the Laguerre coefficients of an exponentially fading past, with tilt ``beta``.

    The diagonal is ``-(1 + beta) / 2``; the default is the untilted matrix that published code uses. ``scale`` changes
    nothing: untilted, the published S4 code has the same ``A`` and ``B``; tilted, it has the same ``A``, and variants
    that multiply ``B`` by ``beta`` or ``sqrt(beta)`` are not offered.

    >>> lagt(2)[0].tolist()
    [[-0.5, 0.0], [-1.0, -0.5]]
    """
    n = positive_int(n, "n")
    _check_scale(scale)
    if not math.isfinite(number(beta, "beta")):
        raise ArgumentError(f"beta must be a finite number, got {beta}")
    ones = torch.ones(n, n, dtype=torch.float64)
    return (-ones).tril(-1) - (1 + beta) / 2 * torch.eye(n, dtype=torch.float64), ones[0].clone()


def fout(n: SupportsIndex, *, scale: Scale = "paper") -> Pair:
    """HiPPO-FouT: the Fourier coefficients of a sliding window of length 1, ordered 1, cos, sin, cos, sin, ...

    Take ``n`` odd: for even ``n`` the last cosine lacks its sine and leaves a pole at 0. ``scale="s4"`` halves ``A``
    and ``B``, as the published S4 layer does: a window of length 2, as for ``legt``.

    >>> A, B = fout(3)
    >>> [[round(x, 3) for x in row] for row in A.tolist()]
    [[-2.0, -2.828, 0.0], [-2.828, -4.0, -6.283], [0.0, 6.283, 0.0]]
    """
    n = positive_int(n, "n")
    N, P = _split_fout(n)
    rate = _rate(scale)
    return rate * (N - P @ P.mT), rate * (P[:, 0] * 2**0.5)


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

# Here and not in the gallery: linalg knows no HiPPO, and ``import wellposed.linalg`` comes by this line in any case.
gallery.MATRICES.update({name: lambda n, make=make: make(n)[0] for name, make in MEASURES.items()})


def split(measure: str, n: SupportsIndex, *, scale: Scale = "paper", **options: float) -> Split:
    """Split a HiPPO matrix into its normal part and its low-rank correction, ``A = N - P P^T``.

    The rank is 2 for LegT and 1 for the others. ``scale`` is that of the measure: for LegT and FouT ``"s4"`` halves
    ``N`` and ``P P^T``; for LegS and LagT ``A``, and so the split, is the same. ``options`` are those of the measure
    (``beta`` for LagT).

    >>> N, P = split("legs", 4)
    >>> bool(torch.allclose(N - P @ P.mT, legs(4)[0]))
    True
    """
    splits = {"legs": _split_legs, "legt": _split_legt, "lagt": _split_lagt, "fout": _split_fout}
    N, P = splits[one_of(measure, "measure", splits)](positive_int(n, "n"), **options)
    rate = _rate(scale)  # before the next line: a misspelt scale is refused for every measure
    return Split(rate * N, rate**0.5 * P) if measure in ("legt", "fout") else Split(N, P)


def dplr(measure: str, n: SupportsIndex, *, scale: Scale = "paper", **options: float) -> DPLR:
    """A HiPPO system as diagonal plus low rank, ``A = V (diag(Lambda) - P P^*) V^*``: where S4, S4D and S5 start.

    ``scale`` and ``options`` are those of the measure; dropping ``P`` leaves the normal part alone.

    >>> Lambda, V, P, B = dplr("legs", 4)
    >>> A = V @ (Lambda.diag() - P @ P.mH) @ V.mH
    >>> bool(torch.allclose(A.real, legs(4)[0]) and torch.allclose((V @ B).real, legs(4)[1]))
    True
    """
    N, P = split(measure, n, scale=scale, **options)
    _, B = MEASURES[measure](n, scale=scale, **options)
    Lambda, V = eig_shifted_skew(N)
    return DPLR(Lambda, V, V.mH @ P.to(V.dtype), V.mH @ B.to(V.dtype))
