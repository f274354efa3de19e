"""Columns, rows and a power of ``A = D + U V`` from one table of powers of ``D`` and one small triangular system.

By plain operations, which compilers, exporters and transformations look through. docs/devdocs/layers.md, (9) to (12)
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from wellposed.kernels.device import exporting

Modes = Float[Tensor, "channel mode"]
Vectors = Float[Tensor, "channel _ state"]
"""Several, one below the other: columns of ``U`` or ``B``, rows of ``V`` or ``C``."""
Moved = Float[Tensor, "channel _ _ state"]
"""Vectors after t = 0, 1, ... steps: ``(channel, vector, time, state)``."""
Sequences = Float[Tensor, "channel _ _ _"]
"""Numbers at each time, ``(channel, vector, rank, time)``."""
Tables = tuple[Moved, Moved, Float[Tensor, "channel state state"]]


def plain_tables(decay: Modes, angle: Modes, U: Vectors, V: Vectors, B: Vectors, C: Vectors, count: int) -> Tables:
    """``A^t B`` for t < count, ``C A^t`` for t <= count and ``A^count``, where ``D = exp(decay + i angle)``.

    Vectors are rows: the columns of ``U`` and ``B``, the rows of ``V`` and ``C``.
    """
    r = U.shape[1]
    re, im = _powers(decay, angle, count + 1)
    free_columns = _moved(re[:, :count], im[:, :count], torch.cat([U, B], 1))  # D^t U, D^t B
    free_rows = _moved(re, -im, torch.cat([V, C], 1))  # V D^t, C D^t: rows stand for conjugates
    DU, DV = free_columns[:, :r], free_rows[:, :r, :count]
    columns = fed_back(free_columns, toeplitz(feedback(free_columns, V)[0], count), DU)  # A^t U, A^t B
    AU = columns[:, :r].flatten(1, 2)
    rows = fed_back(free_rows[:, r:], toeplitz(read_out(AU, C, r), count + 1), DV)
    carry = torch.baddbmm(blocks(re[:, -1], im[:, -1]), AU.mT, DV.flip(2).flatten(1, 2))
    return columns[:, r:], rows, carry


def blocks(re: Float[Tensor, "channel state"], im: Float[Tensor, "channel state"]) -> Tensor:
    """A diagonal complex matrix in real coordinates, blocks ``[[re, -im], [im, re]]``; both parts are given twice."""
    eye = torch.eye(re.shape[-1], dtype=re.dtype, device=re.device)
    return torch.addcmul(re[..., None] * eye, im[..., None], _turned(eye).mT)


def twice(x: Float[Tensor, "*shape mode"]) -> Float[Tensor, "*shape state"]:
    """Every number twice."""
    return torch.stack([x, x], -1).flatten(-2)


def _turned(z: Float[Tensor, "*shape state"]) -> Float[Tensor, "*shape state"]:
    """``i z``."""
    re, im = z.unflatten(-1, (-1, 2)).unbind(-1)
    return torch.stack([-im, re], -1).flatten(-2)


def _powers(decay: Modes, angle: Modes, count: int) -> tuple[Tensor, Tensor]:
    """Real and imaginary parts of ``lambda^t``, each twice: ``(channel, time, state)``."""
    t = torch.arange(count, dtype=decay.dtype, device=decay.device)[:, None]
    size, phase = (t * decay[:, None]).exp(), t * angle[:, None]
    # A sine with its argument moved is a cosine, and some runtimes have no cosine in float64.
    return twice(size * (phase + torch.pi / 2).sin()), twice(size * phase.sin())


def _moved(re: Tensor, im: Tensor, z: Vectors) -> Moved:
    """``lambda^t z``."""
    return torch.addcmul(re[:, None] * z[:, :, None], im[:, None], _turned(z)[:, :, None])


def feedback(free: Moved, V: Vectors) -> tuple[Sequences, Tensor, Tensor]:
    """``s_t = V A^t z`` from ``w_t = V D^t z``: ``s_t - sum over i < t of g_{t-1-i} s_i = w_t`` with ``g_t = V D^t U``.

    Also the triangular matrix and the solution as its unknowns lie, time before rank.
    """
    rank, count = V.shape[1], free.shape[2]
    w = (free.flatten(1, 2) @ V.mT).unflatten(1, (-1, count)).permute(0, 2, 3, 1)  # (channel, time, rank, vector)
    g = -w[..., :rank].permute(0, 2, 3, 1)  # (channel, rank, rank, time)
    system = _delayed(g, count).permute(0, 3, 1, 4, 2).flatten(3, 4).flatten(1, 2)
    s = _solved(system, w.flatten(1, 2))
    return s.unflatten(1, (count, rank)).permute(0, 3, 2, 1), system, s


def _solved(strict: Tensor, w: Tensor) -> Tensor:
    """``(I + strict)^-1 w`` for a strictly lower triangular matrix."""
    if not exporting():
        return torch.linalg.solve_triangular(strict, w, upper=False, unitriangular=True)
    power, done = -strict, 1
    while done < strict.shape[-1]:  # (I - N)^-1 = (I + N) (I + N^2) (I + N^4) ...: few runtimes solve systems
        w, power, done = w + power @ w, power @ power, 2 * done
    return w


def read_out(AU: Vectors, C: Vectors, rank: int) -> Sequences:
    """``q_t = C A^t U``."""
    return (AU @ C.mT).unflatten(1, (rank, -1)).permute(0, 3, 1, 2)


def toeplitz(s: Sequences, times: int) -> Float[Tensor, "channel vector_times rank_count"]:
    """For every vector a row of the Toeplitz matrices of all ranks."""
    return _delayed(s, times).transpose(2, 3).flatten(3, 4).flatten(1, 2)


def fed_back(free: Moved, toeplitz: Tensor, moved: Moved) -> Moved:
    """``free_t + sum over i < t of s_i moved_{t-1-i}``, where ``toeplitz`` is that of ``s``."""
    return torch.baddbmm(free.flatten(1, 2), toeplitz, moved.flatten(1, 2)).unflatten(1, free.shape[1:3])


def _delayed(s: Float[Tensor, "*shape count"], times: int) -> Float[Tensor, "*shape times count"]:
    """The Toeplitz matrix ``[t, i] = s_{t-1-i}``, zero for ``i >= t``.

    Rows of ``[0, reversed s]`` laid end to end and cut one step short slip by one step each.
    """
    count = s.shape[-1]
    row = F.pad(s[..., : times - 1].flip(-1), (count + 1, 0))
    short = row.shape[-1] - 1
    rows = row[..., None, :].expand(*row.shape[:-1], times, short + 1).flatten(-2)
    return rows[..., : times * short].unflatten(-1, (times, short))[..., :count]
