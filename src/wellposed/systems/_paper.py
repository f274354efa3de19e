"""The systems the paper compares: S4 with its low-rank part, S4D without."""

from __future__ import annotations

from typing import Any, Literal, SupportsIndex, overload

import torch
from torch import Tensor

from wellposed import hippo
from wellposed._checks import index_in, one_of, positive_int
from wellposed.errors import ShapeError
from wellposed.systems._dense import DenseSystem
from wellposed.systems._diagonal import DiagonalSystem
from wellposed.systems._dplr import DPLRSystem
from wellposed.systems._parts import as_tensor


@overload
def s4(
    n: SupportsIndex, *, l: SupportsIndex = 1, C: Any = None, D: Any = None, form: Literal["dplr"] = "dplr"
) -> DPLRSystem: ...


@overload
def s4(
    n: SupportsIndex, *, l: SupportsIndex = 1, C: Any = None, D: Any = None, form: Literal["dense"]
) -> DenseSystem: ...


@overload
def s4(
    n: SupportsIndex, *, l: SupportsIndex = 1, C: Any = None, D: Any = None, form: Literal["dplr", "dense"]
) -> DPLRSystem | DenseSystem: ...


def s4(
    n: SupportsIndex, *, l: SupportsIndex = 1, C: Any = None, D: Any = None, form: Literal["dplr", "dense"] = "dplr"
) -> DPLRSystem | DenseSystem:
    """The HiPPO-LegS system of S4, read out through ``C`` (a row or rows of length ``n``), by default ``e_l``.

    ``form="dplr"`` is ``(Lambda - V^* B B^T V, V^* B, C V, D)`` in the eigenvectors ``V`` of the normal part, the
    paper's initialisation of S4 without its extra 1/2; ``form="dense"`` is the real ``(A_H, B_H, C, D)`` itself. The
    system lives on the device of ``C``.

    >>> round(abs(complex(s4(32)(325.4263j))), 6)
    0.002173
    """
    n, C = _sizes(n, l, C)
    if one_of(form, "form", ("dplr", "dense")) == "dense":
        A, B = (t.to(C.device) for t in hippo.legs(n))
        return DenseSystem(A, B, C, D)
    Lambda, V, P, B = (t.to(C.device) for t in hippo.dplr("legs", n))
    return DPLRSystem(Lambda, P, B=B, C=C.to(V.dtype) @ V, D=D)


def s4d(n: SupportsIndex, *, l: SupportsIndex = 1, C: Any = None, D: Any = None, pairs: bool = True) -> DiagonalSystem:
    """The diagonal system of S4D: the low-rank part dropped, half of ``B`` kept, read out through ``C`` as in ``s4``.

    Stored as conjugate pairs unless ``pairs=False`` (or ``C`` is complex), so its outputs are real by construction.

    >>> round(abs(complex(s4d(32)(325.4263j))), 6)
    0.45269
    """
    n, C = _sizes(n, l, C)
    Lambda, V, _, B = (t.to(C.device) for t in hippo.dplr("legs", n))
    full = DiagonalSystem(Lambda, B / 2, C.to(V.dtype) @ V, D)
    return full.to_pairs() if pairs and not C.is_complex() else full


def _sizes(n: SupportsIndex, l: SupportsIndex, C: Any) -> tuple[int, Tensor]:
    n = positive_int(n, "n")
    if C is None:
        C = torch.zeros(n, dtype=torch.float64)
        C[index_in(l, "l", n) - 1] = 1
        return n, C
    if l != 1:
        raise ShapeError(f"give either l or C, not both (l = {l})")
    C = as_tensor(C, "C")
    if C.shape[-1:] != (n,):
        raise ShapeError(f"C has shape {tuple(C.shape)}; a row must have n = {n} entries")
    return n, C.to(torch.complex128 if C.is_complex() else torch.float64)
