"""From a matrix to the numbers a layer starts with, in float64; the layer converts them once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any, Literal, ParamSpec, TypeVar

import torch
from jaxtyping import Complex128, Float64
from torch import Tensor

from wellposed import hippo as _hippo
from wellposed._checks import finite
from wellposed.errors import ArgumentError, ShapeError, UnknownNameError, UnstableError
from wellposed.linalg import Diagonalization, eig_shifted_skew, ptd

Hippo = str | tuple[Any, Any]
_FLOOR = 1e-12  # of the largest eigenvalue: stands for a real part that is zero on paper


Result = TypeVar("Result")
Arguments = ParamSpec("Arguments")


def _on_the_cpu(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Initialisations are made on the CPU, whatever device is the default; the layer moves them once."""

    @wraps(function)
    def wrapped(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        with torch.device("cpu"):
            return function(*args, **kwargs)

    return wrapped


@dataclass(frozen=True)
class Modes:
    """One eigenvalue of every conjugate pair and the real ones, of a system whose matrix is ``n`` by ``n``."""

    Lambda: Complex128[Tensor, " mode"]
    B: Complex128[Tensor, " mode"]
    V: Complex128[Tensor, "n mode"]
    """Columns that make the ``C`` of the modes of one for the original coordinates: ``C V``."""
    V_inv: Complex128[Tensor, "mode n"]
    count: Float64[Tensor, " mode"]
    """How often a mode counts in the output: 2 for a pair, 1 for a real eigenvalue."""
    P: Complex128[Tensor, "mode rank"] | None = None
    """Low-rank part, ``A = diag(Lambda) - P P^*`` over all modes, pairs written out."""

    def __post_init__(self) -> None:
        top = self.Lambda.real.max().item()
        if not top < 0:
            raise UnstableError(
                f"the spectrum given has an eigenvalue with real part {top:.3g}; a layer needs all of them negative: "
                "diagonalise with ptd(A, stable=True) or a smaller rel"
            )


@_on_the_cpu
def dense(hippo: Hippo, n: int | None) -> tuple[Float64[Tensor, "n n"], Float64[Tensor, " n"]]:
    """``(A, B)`` of a measure by name, or the pair given, checked."""
    if isinstance(hippo, str):
        if hippo not in _hippo.MEASURES:
            raise UnknownNameError("hippo", hippo, _hippo.MEASURES)
        if n is None:
            raise ArgumentError(f"hippo={hippo!r} needs d_state")
        return _hippo.MEASURES[hippo](n)
    try:
        A, B = (torch.as_tensor(part).cpu() for part in hippo)
    except (TypeError, ValueError):
        raise ArgumentError(f"hippo is a name or a pair (A, B), got {type(hippo).__name__}") from None
    if A.ndim != 2 or A.shape[0] != A.shape[1] or B.shape != A.shape[:1]:
        raise ShapeError(f"(A, B) need shapes (n, n) and (n,), got {tuple(A.shape)} and {tuple(B.shape)}")
    if A.is_complex() or B.is_complex():
        raise ArgumentError("A and B must be real: a layer maps real sequences to real ones")
    if n is not None and n != len(B):
        raise ShapeError(f"d_state = {n}, but A is {len(B)} x {len(B)}: leave d_state out")
    return finite(A.to(torch.float64), "A"), finite(B.to(torch.float64), "B")


@_on_the_cpu
def perturbed(
    hippo: Hippo, n: int | None, perturbation: Diagonalization | None, rel: float | int | None, cond: float | int | None
) -> Modes:
    """The modes of ``A + E``, from a diagonalisation given or one made here."""
    A, B = dense(hippo, n)
    if perturbation is not None and not isinstance(perturbation, Diagonalization):
        raise ArgumentError(f"perturbation is what ptd returns, got {type(perturbation).__name__}")
    if perturbation is None:
        perturbation = ptd(A, stable=True, rel=rel, cond=cond)
    elif rel is not None or cond is not None:
        raise ArgumentError(f"give perturbation or rel = {rel}, cond = {cond}, not both")
    d = perturbation
    if d.E.is_complex():
        raise ArgumentError("this perturbation is complex: a layer needs the conjugate pairs that a real one gives")
    if d.batch_shape or d.n != len(B):
        raise ShapeError(f"the perturbation is of shape {tuple(d.E.shape)}, the matrix {len(B)} x {len(B)}")
    rebuilt = (d.V * d.Lambda) @ d.V_inv
    if len(d.Lambda) < d.n:  # a half: the other one is its conjugate, and real eigenvalues are their own
        real = d.Lambda.imag == 0
        rebuilt = 2 * rebuilt.real - ((d.V * d.Lambda)[:, real] @ d.V_inv[real]).real
    gap = torch.linalg.matrix_norm(rebuilt - A - d.E) / torch.linalg.matrix_norm(A)
    if gap > 1e-6:
        raise ArgumentError(
            f"the perturbation is of another matrix: they differ by {gap:.1e}; pass that as hippo=(A, B)"
        )
    if d.abscissa >= 0:
        raise UnstableError(
            f"this diagonalisation has max Re(Lambda) = {d.abscissa:.3g}; a layer needs it negative: "
            "ptd(A, stable=True), or a smaller rel"
        )
    half = d.half() if len(d.Lambda) == d.n else d
    return _modes(half.Lambda, half.V, half.V_inv, B)


@_on_the_cpu
def normal_part(n: int, *, share: float = 0.5) -> Modes:
    """HiPPO-LegS with its low-rank part dropped and ``share`` of ``B`` kept: S4D and S5."""
    Lambda, V = eig_shifted_skew(_hippo.split("legs", n).N)
    return _half(Lambda, V, share * _hippo.legs(n)[1])


@_on_the_cpu
def low_rank(hippo: str, n: int) -> Modes:
    """A HiPPO matrix as its normal part and a correction of low rank: S4."""
    if not isinstance(hippo, str):
        raise ArgumentError("S4 knows the low-rank part of the named measures only: for a pair (A, B) take S4PTD")
    if hippo not in _hippo.MEASURES:
        raise UnknownNameError("hippo", hippo, _hippo.MEASURES)
    N, P = _hippo.split(hippo, n)
    Lambda, V = eig_shifted_skew(N)
    floor = -_FLOOR * Lambda.abs().max().clamp(min=1.0)
    Lambda = torch.complex(Lambda.real.clamp(max=floor.item()), Lambda.imag)
    return _half(Lambda, V, _hippo.MEASURES[hippo](n)[1], P)


@_on_the_cpu
def formula(name: Literal["lin", "inv"], n: int) -> Modes:
    """S4D-Lin and S4D-Inv: imaginary parts by formula, real part -1/2, ``B = 1`` (Gu et al., 2022, S4D)."""
    modes = (n + 1) // 2
    k = torch.arange(modes, dtype=torch.float64)
    imag = torch.pi * k if name == "lin" else n / torch.pi * (n / (2 * k + 1) - 1)
    # Real coordinates (x_2k, x_2k+1) stand for Re and Im; C V is then a standard complex normal vector.
    V = torch.zeros(n, modes, dtype=torch.complex128)
    index = torch.arange(n)
    V[index, index // 2] = (1j ** (index % 2)).to(V.dtype) / 2**0.5
    count = torch.full((modes,), 2.0, dtype=torch.float64)
    return Modes(torch.complex(torch.full_like(k, -0.5), imag), torch.ones_like(V[0]), V, V.mH.clone(), count)


@_on_the_cpu
def blocks(one: Modes, count: int) -> Modes:
    """A block-diagonal system of ``count`` copies: S5."""

    def diagonal(M: Tensor) -> Tensor:
        return torch.block_diag(*[M] * count)

    return Modes(
        one.Lambda.repeat(count), one.B.repeat(count), diagonal(one.V), diagonal(one.V_inv), one.count.repeat(count)
    )


def _half(Lambda: Tensor, V: Tensor, B: Tensor, P: Tensor | None = None) -> Modes:
    """One of each conjugate pair of a normal matrix, whose eigenvectors are unitary."""
    keep = Lambda.imag > 1e-12 * Lambda.abs().max()
    real = (Lambda.imag.abs() <= 1e-12 * Lambda.abs().max()).nonzero()[:, 0]
    if len(real):
        # A real eigenvector times a phase: turned back to the real axis.
        phase = V[:, real].gather(0, V[:, real].abs().argmax(0, keepdim=True)).sgn()
        V = V.clone()
        V[:, real] = (V[:, real] * phase.conj()).real.to(V.dtype)
    index = torch.cat([keep.nonzero()[:, 0], real])
    Lambda = torch.complex(Lambda.real, torch.where(keep, Lambda.imag, 0.0))
    V, low = V[:, index], None if P is None else V[:, index].mH @ P.to(V.dtype)
    return _modes(Lambda[index], V, V.mH, B, low)


def _modes(Lambda: Tensor, V: Tensor, V_inv: Tensor, B: Tensor, P: Tensor | None = None) -> Modes:
    count = torch.where(Lambda.imag == 0, 1.0, 2.0).to(torch.float64)
    return Modes(Lambda, V_inv @ B.to(V.dtype), V, V_inv.resolve_conj(), count, P)
