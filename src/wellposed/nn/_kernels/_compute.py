"""The three ways through a bank: chunks (the default), a convolution by FFT, and single steps."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from wellposed.nn._kernels._bank import Bank
from wellposed.nn._kernels._fft import convolve
from wellposed.nn._kernels._scan import scan, times

_LARGEST_CHUNK = 128

Signal = Float[Tensor, "channel batch length"]
State = Float[Tensor, "channel batch state"]


def chunk_for(batch: int, length: int) -> int:
    """Steps a chunk: tables cost as many columns, products as many rows as there are chunks; 128 is enough.

    By comparisons alone, so that a compiler which keeps lengths open still sees a number.
    """
    T = 16
    while T < _LARGEST_CHUNK and batch * length > 8 * T * T:
        T *= 2
    return T if length > T else int(length)


def run_scan(bank: Bank, u: Signal, x0: State | None, *, chunk: int | None = None) -> tuple[Signal, State]:
    """Outputs and last state; the sequence is cut into chunks, and matrix products do the rest."""
    H, batch, length = u.shape
    T = chunk_for(batch, length) if chunk is None else min(chunk, length)
    columns, rows = (table.to(u.dtype) for table in bank.tables(T))
    kernel = (rows[:, :1] @ columns)[:, 0]
    x = torch.zeros(H, batch, bank.states, dtype=u.dtype, device=u.device) if x0 is None else x0
    whole = length // T
    parts = []
    if whole:
        U = u[..., : whole * T].reshape(H, batch * whole, T)
        added = (U @ columns.flip(-1).mT).unflatten(1, (batch, whole))
        X = scan(added, bank.every(T).transition, x)
        before = torch.cat([x[:, :, None], X[:, :, :-1]], 2).flatten(1, 2)
        y = torch.baddbmm(U @ _toeplitz(kernel), before, rows[:, 1:].mT)
        parts.append(y.reshape(H, batch, whole * T))
        x = X[:, :, -1]
    if rest := length - whole * T:
        U = u[..., whole * T :]
        parts.append(torch.baddbmm(U @ _toeplitz(kernel[:, :rest]), x, rows[:, 1 : rest + 1].mT))
        x = times(bank.every(rest).transition.to(u.dtype), x) + U @ columns[..., :rest].flip(-1).mT
    return parts[0] if len(parts) == 1 else torch.cat(parts, -1), x


def _toeplitz(kernel: Float[Tensor, "channel T"]) -> Float[Tensor, "channel T T"]:
    """``M[s, t] = kernel[t - s]``, zero below the diagonal.

    Rows of ``[kernel, 0]`` laid end to end and cut one short slip by one place each.
    """
    T = kernel.shape[-1]
    rows = F.pad(kernel, (0, T))[:, None].expand(-1, T, -1).reshape(-1, 2 * T * T)
    return rows[:, : T * (2 * T - 1)].reshape(-1, T, 2 * T - 1)[..., :T]


def run_convolution(bank: Bank, u: Signal, x0: State | None) -> tuple[Signal, State]:
    """Outputs and last state; the kernel is as long as the sequence, but never as large as all modes at all times.

    With ``t = j T + r`` a kernel value is ``(C A^(jT)) (A^r B)``: two short tables and their product.
    """
    H, batch, length = u.shape
    T = 1
    while length > T * T:
        T *= 2
    J = -(-length // T)
    coarse, columns = bank.every(T), bank.columns(T).to(u.dtype)
    kernel = (coarse.rows(J).to(u.dtype) @ columns).flatten(1)[:, :length]
    y = convolve(u, kernel)
    # The last state: every chunk folded, then weighed by the steps that follow it. Zeros go in front.
    chunks = F.pad(u, (J * T - length, 0)).unflatten(-1, (J, T))
    folded = torch.einsum("hbjt,hst->hbjs", chunks, columns.flip(-1))
    A = coarse.transition
    x = scan(folded, A, torch.zeros(H, batch, bank.states, dtype=u.dtype, device=u.device))[:, :, -1]
    if x0 is None:
        return y, x
    # C A^(jT + r + 1) x0: the state at the start of every chunk, read out along it.
    starts = torch.cat([x0[:, :, None], scan(x0.new_zeros(H, batch, J, bank.states), A, x0)], 2)[:, :, :J]
    y = y + torch.einsum("hbjs,hts->hbjt", starts, bank.rows(T + 1)[:, 1:].to(u.dtype)).flatten(2)[..., :length]
    return y, x + times(bank.every(length).transition.to(u.dtype), x0)
