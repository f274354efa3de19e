"""Conjugate pairs: finding them, and the real coordinates they allow."""

from __future__ import annotations

import torch
from jaxtyping import Complex, Int, Shaped
from torch import Tensor

from wellposed.errors import NotRealError
from wellposed.systems._dense import DenseSystem


def match_pairs(Lambda: Shaped[Tensor, " n"]) -> tuple[Int[Tensor, " h"], Int[Tensor, " h"]]:
    """Indices of one eigenvalue of every conjugate pair and of its partner; a real eigenvalue is its own partner."""
    from scipy.optimize import linear_sum_assignment

    # Each eigenvalue is judged by its own size: a slow mode beside a fast one must not pass for real.
    eps = torch.finfo(Lambda.real.dtype).eps
    tolerance = 1e3 * eps * Lambda.abs()
    imag = Lambda.imag if Lambda.is_complex() else torch.zeros_like(Lambda)
    upper = (imag > tolerance).nonzero()[:, 0]
    lower = (imag < -tolerance).nonzero()[:, 0]
    real = (imag.abs() <= tolerance).nonzero()[:, 0]
    if len(upper) != len(lower):
        raise NotRealError(f"{len(upper)} eigenvalues above the real axis, {len(lower)} below: they do not pair up")
    distance = (Lambda[upper, None].conj() - Lambda[lower]).abs()
    # One to one, so that an eigenvalue that comes more than once finds as many partners.
    rows, columns = linear_sum_assignment(distance.detach().cpu().numpy())
    partner = torch.from_numpy(columns).to(lower.device)
    missed = distance[rows, columns]
    worst = missed.max().item() if len(rows) else 0.0
    if bool((missed > tolerance[upper][torch.as_tensor(rows, device=upper.device)]).any()):
        raise NotRealError(f"an eigenvalue misses the conjugate of its nearest partner by {worst:.1e}")
    return torch.cat([upper, real]), torch.cat([lower[partner], real])


def real_modes(
    B: Shaped[Tensor, "*batch n m"], C: Shaped[Tensor, "*batch p n"]
) -> tuple[Shaped[Tensor, "*batch n m"], Shaped[Tensor, "*batch p n"]]:
    """Real ``B`` and ``C`` for which ``C B`` is, mode by mode, the real part of what it was."""
    dtype = torch.promote_types(torch.promote_types(B.dtype, C.dtype), torch.complex64)
    b, c = B.to(dtype), C.mT.to(dtype)
    for swapped, x, y in ((False, b, c), (True, c, b)):
        # If x is a real vector times a phase, the phase may move to y, of which the real part is enough.
        top = x.gather(-1, x.abs().argmax(-1, keepdim=True))
        phase = torch.where(top.imag == 0, 1, top.sgn() * torch.where(top.real < 0, -1, 1))
        weight = y.abs().amax(-1)  # how much of a mode is seen: a small x beside a large y counts as well
        x, y = x * phase.conj(), (y * phase).real
        lost, size = ((part.abs().amax(-1) * weight).amax(-1) for part in (x.imag, x))
        if bool((lost <= 1e3 * torch.finfo(dtype).eps * size).all()):
            return (y, x.real.mT) if swapped else (x.real, y.mT)
    defect = (b[..., :, None, :] * c[..., :, :, None]).imag.abs().max().item()
    raise NotRealError(
        f"a real eigenvalue has one mode, and Re(C B) here needs two: Im(C B) reaches {defect:.1e}; "
        "give it a real B or a real C"
    )


def real_coordinates(system: DenseSystem, Lambda: Shaped[Tensor, "*batch n"]) -> DenseSystem:
    """Rewrite dense systems, whose coordinates belong to ``Lambda``, in the real coordinates of its pairs."""
    if not any(t.is_complex() for t in (system.A, system.B, system.C, system.D)):
        return system
    dtype = system.B.real.dtype.to_complex()
    changes = [_change(row, dtype) for row in Lambda.detach().reshape(-1, system.n)]
    W = torch.stack(changes).reshape(*system.batch_shape, system.n, system.n)
    A, B, C = (t.to(dtype) for t in (system.A, system.B, system.C))
    parts = (W @ A @ W.mH, W @ B, C @ W.mH, system.D)
    bound = 64 * system.n * torch.finfo(dtype).eps
    if any(t.is_complex() and _imaginary(t) > bound for t in parts):
        return system.to_real()
    return system._like(DenseSystem(*(t.real for t in parts), dt=system.dt))


def _change(Lambda: Shaped[Tensor, " n"], dtype: torch.dtype) -> Complex[Tensor, "n n"]:
    """The unitary matrix to real coordinates; ``x_j = conj(x_i)`` become ``sqrt(2) Re x_i`` and ``sqrt(2) Im x_i``."""
    first, second = match_pairs(Lambda)
    W = torch.zeros(len(Lambda), len(Lambda), dtype=dtype, device=Lambda.device)
    row = 0
    for i, j in zip(first.tolist(), second.tolist(), strict=True):
        if i == j:
            W[row, i] = 1
        else:
            W[row, i] = W[row, j] = 0.5**0.5
            W[row + 1, i], W[row + 1, j] = -1j * 0.5**0.5, 1j * 0.5**0.5
        row += 1 if i == j else 2
    return W


def _imaginary(t: Complex[Tensor, "*batch r c"]) -> float:
    """The largest imaginary part, relative to the largest entry of its matrix."""
    size = t.abs().amax((-2, -1)).clamp(min=1e-300)
    return (t.imag.abs().amax((-2, -1)) / size).max().item()
