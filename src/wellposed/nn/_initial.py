"""From a matrix to the numbers a layer starts with, in float64; the layer converts them once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache, wraps
from typing import Any, Literal, ParamSpec, TypeVar

import torch
from jaxtyping import Complex128, Float64
from torch import Tensor

from wellposed import hippo as _hippo
from wellposed._checks import finite
from wellposed.errors import ArgumentError, ShapeError, UnknownNameError, UnstableError
from wellposed.linalg import Diagonalization, ptd

Hippo = str | tuple[Any, Any]
Scale = Literal["paper", "s4"]
Method = Literal["auto", "rank-one", "optimized", "gaussian"]
Columns = Literal["optimal", "unit"]
SCALES = ("paper", "s4")
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


def check_name(kind: str, name: str, known: Iterable[str]) -> None:
    """Refuse a name that is not in the list."""
    if name not in (known := tuple(known)):
        raise UnknownNameError(kind, name, known)


def check_dtype(dtype: Any) -> None:
    """Refuse what parameters cannot be kept in."""
    if dtype is not None and not (isinstance(dtype, torch.dtype) and dtype.is_floating_point):
        raise ArgumentError(f"parameters are real, complex ones stored as pairs: dtype = {dtype} will not do")


@dataclass(frozen=True)
class Modes:
    """One eigenvalue of every conjugate pair and the real ones, of a system whose matrix is ``n`` by ``n``.

    Where they are read off a batch of systems, ``Lambda`` and ``B`` have an axis for it in front.
    """

    Lambda: Complex128[Tensor, "*system mode"]
    B: Complex128[Tensor, "*system mode"]
    V: Complex128[Tensor, "n mode"]
    """Columns that make the ``C`` of the modes of one for the original coordinates: ``C V``."""
    V_inv: Complex128[Tensor, "mode n"]
    count: Float64[Tensor, " mode"]
    """How often a mode counts in the output: 2 for a pair, 1 for a real eigenvalue."""
    P: Complex128[Tensor, "mode rank"] | None = None
    """Low-rank part, ``A = diag(Lambda) - P P^*`` over all modes, pairs written out."""

    @classmethod
    def read_off(cls, Lambda: Tensor, B: Tensor, n: int) -> Modes:
        """Modes without eigenvectors: of these only the number ``n`` of coordinates is known."""
        count = torch.where(Lambda.reshape(-1, Lambda.shape[-1])[0].imag == 0, 1.0, 2.0).to(torch.float64)
        V = torch.zeros(n, Lambda.shape[-1], dtype=torch.complex128)
        return cls(Lambda, B, V, V.mH, count)

    def __post_init__(self) -> None:
        top = self.Lambda.real.max().item()
        if not top < 0:
            raise UnstableError(
                f"the spectrum given has an eigenvalue with real part {top:.3g}; a layer needs all of them negative: "
                "diagonalise with ptd(A, stable=True) or a smaller rel"
            )


@_on_the_cpu
def dense(hippo: Hippo, n: int | None, scale: Scale) -> tuple[Float64[Tensor, "n n"], Float64[Tensor, " n"]]:
    """``(A, B)`` of a measure by name, or the pair given, checked."""
    if isinstance(hippo, str):
        check_name("hippo", hippo, _hippo.MEASURES)
        if n is None:
            raise ArgumentError(f"hippo={hippo!r} needs d_state")
        return _hippo.MEASURES[hippo](n, scale=scale)
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
    hippo: Hippo,
    n: int | None,
    perturbation: Diagonalization | None,
    rel: float | int | None,
    cond: float | int | None,
    scale: Scale,
    gamma: float | int | None = None,
    method: Method = "auto",
    columns: Columns | None = None,
) -> Modes:
    """The modes of ``A + E``, from a diagonalisation given or one made here.

    64 states unless a matrix or a perturbation says otherwise.
    """
    if n is None and isinstance(hippo, str):
        n = 64 if perturbation is None else perturbation.n
    A, B = dense(hippo, n, scale)
    if perturbation is not None and not isinstance(perturbation, Diagonalization):
        raise ArgumentError(f"perturbation is what ptd returns, got {type(perturbation).__name__}")
    if perturbation is None:
        if columns is None:
            columns = "optimal" if gamma is None else "unit"
        perturbation = _made(A, hippo, scale, {"rel": rel, "cond": cond, "gamma": gamma}, method, columns)
    elif any(each is not None for each in (rel, cond, gamma, columns)) or method != "auto":
        raise ArgumentError(
            f"give perturbation or rel = {rel}, cond = {cond}, gamma = {gamma}, method = {method!r}, "
            f"columns = {columns!r}, not both"
        )
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
    V_inv = half.V_inv.resolve_conj()
    # Copies: parameters made of these learn, and the diagonalisation may be kept.
    return Modes(half.Lambda.clone(), V_inv @ B.to(V_inv.dtype), half.V.clone(), V_inv.clone(), _count(half.Lambda))


def _made(
    A: Tensor, hippo: Hippo, scale: Scale, knobs: dict[str, Any], method: Method, columns: Columns
) -> Diagonalization:
    """By ``ptd``; of a named matrix once for all layers of a model, as gamma takes seconds."""
    plain = all(type(value) in (int, float, type(None)) for value in knobs.values())
    if isinstance(hippo, str) and plain:
        return _kept(hippo, len(A), scale, method, columns, *knobs.values())
    return _by_ptd(A, method, columns, **knobs)


@lru_cache(maxsize=64)
def _kept(
    hippo: str, n: int, scale: Scale, method: Method, columns: Columns, *knobs: float | int | None
) -> Diagonalization:
    return _by_ptd(dense(hippo, n, scale)[0], method, columns, *knobs)


def _by_ptd(A: Tensor, method: Method, columns: Columns, rel: Any, cond: Any, gamma: Any) -> Diagonalization:
    return ptd(A, stable=True, method=method, rel=rel, cond=cond, gamma=gamma, columns=columns)


@_on_the_cpu
def normal_part(n: int, scale: Scale = "paper") -> Modes:
    """HiPPO-LegS with its low-rank part dropped: S4D and S5.

    The paper's S4D keeps half of ``B``, as its theory wants; the published code keeps all of it.
    """
    Lambda, V, _, B = _hippo.dplr("legs", n, scale=scale)
    return _half(Lambda, V, B / 2 if scale == "paper" else B)


@_on_the_cpu
def low_rank(hippo: str, n: int, scale: Scale) -> Modes:
    """A HiPPO matrix as its normal part and a correction of low rank: S4."""
    if not isinstance(hippo, str):
        raise ArgumentError("S4 knows the low-rank part of the named measures only: for a pair (A, B) take S4PTD")
    check_name("hippo", hippo, _hippo.MEASURES)
    Lambda, V, P, B = _hippo.dplr(hippo, n, scale=scale)
    floor = -_FLOOR * Lambda.abs().max().clamp(min=1.0)
    Lambda = torch.complex(Lambda.real.clamp(max=floor.item()), Lambda.imag)
    return _half(Lambda, V, B, P)


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
    """One of each conjugate pair of a normal matrix; ``V`` is unitary, ``B`` and ``P`` are in its coordinates."""
    keep = Lambda.imag > 1e-12 * Lambda.abs().max()
    real = (Lambda.imag.abs() <= 1e-12 * Lambda.abs().max()).nonzero()[:, 0]
    # A real eigenvector times a phase is turned back to the real axis, and its coordinates with it.
    turn = torch.ones_like(Lambda)
    if len(real):
        turn[real] = V[:, real].gather(0, V[:, real].abs().argmax(0, keepdim=True)).sgn()[0].conj()
    V = V * turn
    V[:, real] = V[:, real].real.to(V.dtype)
    index = torch.cat([keep.nonzero()[:, 0], real])
    Lambda = torch.complex(Lambda.real, torch.where(keep, Lambda.imag, 0.0))[index]
    back = turn.conj()[index]
    V, B, P = V[:, index], back * B[index], None if P is None else back[:, None] * P[index]
    return Modes(Lambda, B, V, V.mH.resolve_conj(), _count(Lambda), P)


def _count(Lambda: Tensor) -> Float64[Tensor, " mode"]:
    return torch.where(Lambda.imag == 0, 1.0, 2.0).to(torch.float64)
