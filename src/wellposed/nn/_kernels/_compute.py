"""The three ways through a bank: chunks (the default), a convolution by FFT, and single steps."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from wellposed.nn._kernels._bank import Bank
from wellposed.nn._kernels._fft import convolve
from wellposed.nn._kernels._scan import scan, times

_LARGEST_CHUNK = 64
_SEGMENT = 2**21  # numbers: 8 MB in float32, which allocators keep at hand and caches nearly hold

Signal = Float[Tensor, "channel batch length"]
State = Float[Tensor, "channel batch state"]
Skip = Float[Tensor, " channel"]


def chunk_for(batch: int, length: int) -> int:
    """Steps a chunk: tables cost as many columns, products as many rows as there are chunks; 64 is enough.

    By comparisons alone, so that a compiler which keeps lengths open still sees a number.
    """
    T = 16
    while T < _LARGEST_CHUNK and batch * length > 8 * T * T:
        T *= 2
    return T if length > T else int(length)


def segment(u: Float[Tensor, "batch length channel"], numbers: int) -> int:
    """How many steps at a time go through a layer that holds so many numbers for each step of each sequence."""
    return u.shape[1] if u.is_cuda else max(1, _SEGMENT // (len(u) * numbers))


def joined(parts: list[Tensor]) -> Tensor:
    """Pieces of ``(batch, length, ...)``, one after another."""
    return parts[0] if len(parts) == 1 else torch.cat(parts, 1)


def run_scan(
    bank: Bank, u: Signal, x0: State | None, *, D: Skip | None = None, chunk: int | None = None
) -> tuple[Signal, State]:
    """Outputs and last state; the sequence is cut into chunks, and matrix products do the rest.

    On a CPU long batches go through in segments that fit a cache, each laid out by channels and back.
    """
    H, batch, length = u.shape
    T = chunk_for(batch, length) if chunk is None else min(chunk, length)
    tables = _Tables.of(bank, T, D, u.dtype)
    x = torch.zeros(H, batch, bank.states, dtype=u.dtype, device=u.device) if x0 is None else x0
    by_time, outputs = u.permute(1, 2, 0), []
    for part in by_time.split(max(T, segment(by_time, H) // T * T), 1):
        y, x = _run_chunks(bank, tables, permuted(part, (2, 0, 1)), x)
        outputs.append(permuted(y, (1, 2, 0)))
    return joined(outputs).permute(2, 0, 1), x


class _Tables(NamedTuple):
    """What all chunks share."""

    columns: Float[Tensor, "channel state T"]
    rows: Float[Tensor, "channel T_1 state"]
    inside: Float[Tensor, "channel T T"]
    carry: Tensor

    @staticmethod
    def of(bank: Bank, T: int, D: Skip | None, dtype: torch.dtype) -> _Tables:
        columns, rows = (table.to(dtype) for table in bank.tables(T))
        kernel = _with_skip((rows[:, :1] @ columns)[:, 0], D)
        return _Tables(columns, rows, _toeplitz(kernel), bank.every(T).transition)


def _with_skip(kernel: Float[Tensor, "channel T"], D: Skip | None) -> Float[Tensor, "channel T"]:
    """``D u_t`` is one more term at lag 0."""
    return kernel if D is None else torch.cat([kernel[:, :1] + D[:, None].to(kernel.dtype), kernel[:, 1:]], 1)


def _run_chunks(bank: Bank, tables: _Tables, u: Signal, x: State) -> tuple[Signal, State]:
    """Whole chunks first, then what is left."""
    columns, rows, inside, carry = tables
    (H, batch, length), T = u.shape, columns.shape[-1]
    whole = length // T
    parts = []
    if whole:
        U = u[..., : whole * T].reshape(H, batch * whole, T)
        added = (U @ columns.flip(-1).mT).unflatten(1, (batch, whole))
        X = scan(added, carry, x)
        before = torch.cat([x[:, :, None], X[:, :, :-1]], 2).flatten(1, 2)
        parts.append(torch.baddbmm(U @ inside, before, rows[:, 1:].mT).reshape(H, batch, whole * T))
        x = X[:, :, -1]
    if rest := length - whole * T:
        U = u[..., whole * T :]
        parts.append(torch.baddbmm(U @ inside[:, :rest, :rest], x, rows[:, 1 : rest + 1].mT))
        x = times(bank.every(rest).transition.to(u.dtype), x) + U @ columns[..., :rest].flip(-1).mT
    return parts[0] if len(parts) == 1 else torch.cat(parts, -1), x


def permuted(x: Tensor, order: tuple[int, ...]) -> Tensor:
    """``x.permute(order)``, written out: products of strided matrices would copy them each time, in backward too."""
    if torch.compiler.is_exporting():
        return x.permute(order)
    return _Permuted.apply(x, order)


class _Permuted(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, order: tuple[int, ...]) -> Tensor:
        if order == (1, 2, 0):  # as a matrix, whose transpose is written faster
            return x.flatten(1).t().contiguous().unflatten(0, x.shape[1:])
        return x.permute(order).contiguous()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.back = tuple(inputs[1].index(k) for k in range(len(inputs[1])))

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        return permuted(grad, ctx.back), None


def _toeplitz(kernel: Float[Tensor, "channel T"]) -> Float[Tensor, "channel T T"]:
    """``M[s, t] = kernel[t - s]``, zero below the diagonal.

    Rows of ``[kernel, 0]`` laid end to end and cut one short slip by one place each.
    """
    T = kernel.shape[-1]
    rows = F.pad(kernel, (0, T))[:, None].expand(-1, T, -1).reshape(-1, 2 * T * T)
    return rows[:, : T * (2 * T - 1)].reshape(-1, T, 2 * T - 1)[..., :T]


def run_convolution(bank: Bank, u: Signal, x0: State | None, *, D: Skip | None = None) -> tuple[Signal, State]:
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
    y = convolve(u, _with_skip(kernel, D))
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
