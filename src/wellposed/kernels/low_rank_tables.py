"""``low_rank_tables`` with complex numbers and a gradient written out: a third of the operations, for eager mode.

Compilers, exporters, transformations and gradients of gradients take the plain operations. docs/devdocs/layers.md
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from wellposed.kernels.low_rank_plain import (
    Modes,
    Moved,
    Sequences,
    Tables,
    Vectors,
    fed_back,
    feedback,
    plain_tables,
    read_out,
    toeplitz,
)
from wellposed.kernels.twins import Tensors, Twins


def low_rank_tables(decay: Modes, angle: Modes, U: Vectors, V: Vectors, B: Vectors, C: Vectors, count: int) -> Tables:
    """As ``plain_tables``."""
    twins = Twins(partial(plain_tables, count=count), partial(_fast, count=count), _gradients)
    columns, rows, carry = twins(decay, angle, U, V, B, C)
    return columns, rows, carry


class _Made(NamedTuple):
    """What the forward pass leaves for the backward pass."""

    powers: Tensor
    back: Tensor
    """Their conjugates."""
    Z: Tensor
    """``U`` and ``B`` as complex numbers."""
    W: Tensor
    """``V`` and ``C``."""
    free_columns: Tensor
    free_rows: Tensor
    system: Tensor
    solution: Tensor
    into: Tensor
    """The Toeplitz matrix of ``V A^t U`` and ``V A^t B``."""
    out: Tensor
    """That of ``C A^t U``."""
    AU: Tensor


def _fast(
    decay: Modes, angle: Modes, U: Vectors, V: Vectors, B: Vectors, C: Vectors, count: int
) -> tuple[Tables, _Made]:
    r = U.shape[1]
    t = torch.arange(count + 1, dtype=decay.dtype, device=decay.device)[:, None]
    powers = torch.polar((t * decay[:, None]).exp(), t * angle[:, None])[:, None]  # (channel, 1, time, mode)
    back = powers.conj().resolve_conj()
    Z, W = (_complex(torch.cat(pair, 1))[:, :, None] for pair in ((U, B), (V, C)))
    free_columns, free_rows = _real(powers[:, :, :count] * Z), _real(back * W)
    DU, DV = free_columns[:, :r], free_rows[:, :r, :count]
    s, system, solution = feedback(free_columns, V)
    into = toeplitz(s, count)
    columns = fed_back(free_columns, into, DU)
    AU = columns[:, :r].flatten(1, 2)
    out = toeplitz(read_out(AU, C, r), count + 1)
    rows = fed_back(free_rows[:, r:], out, DV)
    carry = AU.mT @ DV.flip(2).flatten(1, 2)
    re, im = torch.view_as_real(powers[:, 0, -1]).unbind(-1)
    _diagonal(carry).add_(torch.stack([re, -im, im, re], 1).unflatten(1, (2, 2)))
    made = _Made(powers, back, Z, W, free_columns, free_rows, system, solution, into, out, AU)
    return (columns[:, r:], rows, carry), made


def _gradients(inputs: Tensors, kept: Tensors, grads: Tensors) -> Tensors:
    """The steps of ``_fast`` from the last to the first."""
    V, C, made, (for_columns, for_rows, for_carry) = inputs[3], inputs[5], _Made(*kept), grads
    r, count = V.shape[1], made.free_columns.shape[2]
    for_AU, for_DV, for_C = _through_rows(C, made, for_rows, for_carry, r)
    for_free, for_V = _through_columns(V, made, torch.cat([for_AU, for_columns], 1))
    for_Z, Z_slope = _moments(made.back[:, :, :count], for_free)
    for_W, W_slope = _moments(made.powers, torch.cat([F.pad(for_DV, (0, 0, 0, 1)), for_rows], 1))
    (p, q), (u, v) = (row.unbind(1) for row in _diagonal(for_carry).unbind(1))
    last = count * made.back[:, 0, -1] * torch.complex(p + v, u - q)
    # lambda^t changes by t lambda^t when its logarithm does; rows have the conjugate of it.
    for_log = (made.Z[:, :, 0].conj() * Z_slope).sum(1) + (made.W[:, :, 0] * W_slope.conj()).sum(1) + last
    for_Z, for_W = _real(for_Z), _real(for_W)
    return for_log.real, for_log.imag, for_Z[:, :r], for_W[:, :r] + for_V, for_Z[:, r:], for_W[:, r:] + for_C


def _moments(powers: Tensor, grad: Moved) -> tuple[Tensor, Tensor]:
    """Sums over t of ``g_t`` and of ``t g_t``, where ``g_t`` is the gradient brought back by t steps."""
    brought = _real(powers * _complex(grad.contiguous()))
    t = torch.arange(brought.shape[2], dtype=brought.dtype, device=brought.device)
    first, second = (torch.stack([torch.ones_like(t), t]) @ brought).unbind(2)
    return _complex(first), _complex(second)


def _through_rows(C: Vectors, made: _Made, for_rows: Moved, for_carry: Tensor, r: int) -> tuple[Moved, Moved, Vectors]:
    """From rows and carry to ``A^t U``, ``V D^t`` and ``C``."""
    count = made.free_columns.shape[2]
    DV, grad = made.free_rows[:, :r, :count], for_rows.flatten(1, 2)
    for_AU = DV.flip(2).flatten(1, 2) @ for_carry.mT
    for_DV = (made.AU @ for_carry).unflatten(1, (r, count)).flip(2).flatten(1, 2)
    for_DV = torch.baddbmm(for_DV, made.out.mT, grad).unflatten(1, (r, count))
    for_q = _toeplitz_adjoint(grad @ DV.flatten(1, 2).mT, count + 1, count).flatten(2)
    for_AU = torch.baddbmm(for_AU, for_q.mT, C).unflatten(1, (r, count))
    return for_AU, for_DV, for_q @ made.AU


def _through_columns(V: Vectors, made: _Made, grad: Moved) -> tuple[Moved, Vectors]:
    """From ``A^t U`` and ``A^t B`` to ``D^t U`` and ``D^t B``, and to ``V``."""
    r, (vectors, count) = V.shape[1], grad.shape[1:3]
    grad, free = grad.flatten(1, 2), made.free_columns.flatten(1, 2)
    for_DU = made.into.mT @ grad
    for_s = _toeplitz_adjoint(grad @ free[:, : r * count].mT, count, count).permute(0, 3, 2, 1).flatten(1, 2)
    for_w = torch.linalg.solve_triangular(made.system.mT, for_s, upper=True, unitriangular=True)
    for_g = (for_w @ made.solution.mT).unflatten(2, (count, r)).unflatten(1, (count, r)).permute(0, 2, 4, 1, 3)
    for_w = for_w.unflatten(1, (count, r))
    for_w[..., :r] += _sums_along_diagonals(for_g).permute(0, 3, 1, 2)
    for_w = for_w.permute(0, 3, 1, 2).flatten(1, 2)
    for_V = for_w.mT @ free
    grad.baddbmm_(for_w, V)  # made for this alone
    grad[:, : r * count] += for_DU
    return grad.unflatten(1, (vectors, count)), for_V


def _toeplitz_adjoint(grad: Tensor, times: int, count: int) -> Sequences:
    """Back to the sequences of which ``toeplitz`` made matrices."""
    return _sums_along_diagonals(grad.unflatten(2, (-1, count)).unflatten(1, (-1, times)).transpose(2, 3))


def _sums_along_diagonals(grad: Float[Tensor, "*shape times count"]) -> Float[Tensor, "*shape count"]:
    """For each ``k`` the sum of all entries ``[t, t - 1 - k]``: the adjoint of a delayed Toeplitz matrix."""
    times, count = grad.shape[-2:]
    lower = grad.tril(-1).contiguous()
    # Steps of one row and one column stay on a diagonal; those that leave at the left meet zeros above it.
    along = lower.as_strided((*lower.shape[:-2], times - 1, count), (*lower.stride()[:-2], count + 1, 1), 1)
    return along.sum(-2).flip(-1)


def _complex(x: Float[Tensor, "*shape state"]) -> Tensor:
    return torch.view_as_complex(x.unflatten(-1, (-1, 2)))


def _real(z: Tensor) -> Float[Tensor, "*shape state"]:
    return torch.view_as_real(z).flatten(-2)


def _diagonal(matrix: Float[Tensor, "channel state state"]) -> Float[Tensor, "channel 2 2 mode"]:
    """The blocks of every mode, a view."""
    modes = matrix.shape[-1] // 2
    return matrix.unflatten(2, (modes, 2)).unflatten(1, (modes, 2)).diagonal(0, 1, 3)
