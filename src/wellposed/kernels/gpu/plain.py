"""The tables and what is made of them in plain PyTorch: for dense systems, and for derivatives of derivatives."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from wellposed.kernels.gpu.pieces import Tables, TableShape
from wellposed.kernels.recurrence import Recurrence
from wellposed.kernels.scan import scan


def plain_tables(recurrence: Recurrence, D: Tensor | None, shape: TableShape) -> Tables:
    """The tables of any recurrence, as the kernels take them."""
    columns, rows = recurrence.tables(shape.steps)
    kernel = torch.stack([(own[:, :1] @ columns)[:, 0] for own in rows])
    if D is not None:
        first = F.pad(D.to(kernel)[None, :, None], (0, kernel.shape[2] - 1))
        kernel = kernel + F.pad(first, (0, 0, 0, 0, 0, len(kernel) - 1))
    carry = recurrence.every(shape.steps).transition
    halves, size = carry.ndim == 2, shape.state
    fold = to_padded(columns.flip(2), 1, size, halves=halves).mT
    read = to_padded(torch.stack([own[:, 1:].mT for own in rows]), 2, size, halves=halves)
    tables = [kernel, fold, read, _padded_transition(carry, size)]
    if shape.jump > 1:
        tables.append(_padded_transition(recurrence.every(shape.steps * shape.jump).transition, size).detach())
    else:
        tables.append(carry.new_empty(0))
    return Tables(*(t.float().contiguous() for t in tables))


def _padded_transition(A: Tensor, size: int) -> Tensor:
    if A.ndim == 2:
        return to_padded(A, 1, size, halves=True)
    return to_padded(to_padded(A, 1, size, halves=False), 2, size, halves=False)


def to_padded(x: Tensor, dim: int, size: int, *, halves: bool) -> Tensor:
    """States in the layout of the kernels: real parts before imaginary ones, if ``halves``, and zeros to fill up."""
    x = x.movedim(dim, -1)
    if halves:
        x = F.pad(x.unflatten(-1, (-1, 2)).mT, (0, size // 2 - x.shape[-1] // 2)).flatten(-2)
    else:
        x = F.pad(x, (0, size - x.shape[-1]))
    return x.movedim(-1, dim)


def from_padded(x: Tensor, dim: int, size: int, *, halves: bool) -> Tensor:
    """And back to ``size`` numbers."""
    x = x.movedim(dim, -1)
    x = x.unflatten(-1, (2, -1))[..., : size // 2].mT.flatten(-2) if halves else x[..., :size]
    return x.movedim(-1, dim)


def plain_convolution(
    u: Tensor, start: Tensor | None, kernel: Tensor, fold: Tensor, read: Tensor, carry: Tensor
) -> Tensor:
    """What ``gpu.chunks`` computes from its tables, ``(channel, batch, length)`` to the same."""
    directions, H, T = kernel.shape
    length = u.shape[2]
    lag = torch.arange(T, device=u.device)
    lag = lag[None, :] - lag[:, None]
    halves = carry.ndim == 2
    state = carry.shape[1]
    A = from_padded(carry, 1, state, halves=True) if halves else carry
    y = torch.zeros_like(u)
    for d in range(directions):
        own = u.flip(2) if d else u
        U = F.pad(own, (0, -length % T)).unflatten(2, (-1, T))
        inside = torch.where(lag >= 0, kernel[d][:, lag.clamp(min=0)], 0.0)
        columns, rows = (from_padded(t, k, state, halves=True) if halves else t for t, k in ((fold, 2), (read[d], 1)))
        x0 = u.new_zeros(H, u.shape[1], state)
        if start is not None and d == 0:
            x0 = from_padded(start, 2, state, halves=True) if halves else start
        X = scan(torch.einsum("hbjt,hts->hbjs", U, columns), A, x0)
        before = torch.cat([x0[:, :, None], X[:, :, :-1]], 2)
        out = torch.einsum("hbjs,hst->hbjt", U, inside) + torch.einsum("hbjs,hst->hbjt", before, rows)
        out = out.flatten(2)[..., :length]
        y = y + (out.flip(2) if d else out)
    return y
