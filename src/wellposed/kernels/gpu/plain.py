"""The tables and what is made of them in plain PyTorch: for dense systems, and for derivatives of derivatives."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from wellposed.kernels.gpu.pieces import Sizes
from wellposed.kernels.recurrence import Recurrence
from wellposed.kernels.scan import scan


def plain_tables(recurrence: Recurrence, D: Tensor | None, sizes: Sizes) -> Tensor:
    """The tables of any recurrence in one array, as the kernels take them."""
    columns, rows = recurrence.tables(sizes.steps)
    kernel = torch.stack([(own[:, :1] @ columns)[:, 0] for own in rows])
    if D is not None:
        skip = F.pad(D.to(kernel)[:, None], (0, kernel.shape[2] - 1))
        kernel = kernel + F.pad(skip[None], (0, 0, 0, 0, 0, len(kernel) - 1))
    fold = to_padded(columns.flip(2), 1, sizes).mT
    read = to_padded(torch.stack([own[:, 1:].mT for own in rows]), 2, sizes)
    tables = [kernel, fold, read, _padded_transition(recurrence.every(sizes.steps).transition, sizes)]
    if sizes.jump:
        far = recurrence.every(sizes.steps * sizes.jump).transition
        tables.append(_padded_transition(far, sizes).detach())
    return torch.cat([t.flatten() for t in tables]).float()


def _padded_transition(A: Tensor, sizes: Sizes) -> Tensor:
    return to_padded(to_padded(A, 1, sizes), 2, sizes) if sizes.dense else to_padded(A, 1, sizes)


def to_padded(x: Tensor, dim: int, sizes: Sizes) -> Tensor:
    """States in the layout of the kernels: real parts before imaginary ones, and zeros to fill up."""
    x = x.movedim(dim, -1)
    if sizes.dense:
        return F.pad(x, (0, sizes.state - x.shape[-1])).movedim(-1, dim)
    halves = F.pad(x.unflatten(-1, (-1, 2)).mT, (0, (sizes.state - x.shape[-1]) // 2))
    return halves.flatten(-2).movedim(-1, dim)


def _interleaved(x: Tensor, dim: int, sizes: Sizes) -> Tensor:
    """Real and imaginary parts in turn, as the scan takes them."""
    return x if sizes.dense else x.movedim(dim, -1).unflatten(-1, (2, -1)).mT.flatten(-2).movedim(-1, dim)


def plain_convolution(u: Tensor, start: Tensor | None, tables: Tensor, sizes: Sizes) -> Tensor:
    """What ``gpu.chunks`` computes from its tables, ``(channel, batch, length)`` to the same."""
    kernel, fold, read, carry, _ = sizes.split(tables)
    (H, batch, length), T = u.shape, sizes.steps
    lag = torch.arange(T, device=u.device)
    lag = lag[None, :] - lag[:, None]
    A = _interleaved(carry, 1, sizes)
    y = torch.zeros_like(u)
    for d in range(sizes.directions):
        U = F.pad(u.flip(2) if d else u, (0, -length % T)).unflatten(2, (-1, T))
        inside = torch.where(lag >= 0, kernel[d][:, lag.clamp(min=0)], 0.0)
        x0 = u.new_zeros(H, batch, sizes.state) if start is None or d else _interleaved(start, 2, sizes)
        X = scan(torch.einsum("hbjt,hts->hbjs", U, _interleaved(fold, 2, sizes)), A, x0)
        before = torch.cat([x0[:, :, None], X[:, :, :-1]], 2)
        out = torch.einsum("hbjs,hst->hbjt", U, inside)
        out = out + torch.einsum("hbjs,hst->hbjt", before, _interleaved(read[d], 1, sizes))
        out = out.flatten(2)[..., :length]
        y = y + (out.flip(2) if d else out)
    return y
