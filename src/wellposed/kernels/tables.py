"""Sequences in chunks: matrix products inside them, a scan between them. The one engine of layers and of systems.

Per channel three small tables carry all parameters: the Toeplitz matrix of the first T kernel values, the columns that
fold a chunk into the state, and the rows that read a carried state out. Several inputs and outputs are numbers side by
side in each step, so that a chunk of T steps is a row of ``T inputs`` numbers. docs/devdocs/simulate.md
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from wellposed.kernels.recurrence import Recurrence
from wellposed.kernels.scan import scan, times

LARGEST_TABLE = 2**20
"""Numbers in the Toeplitz matrices of all systems together: 8 MB in float64."""

Inputs = Float[Tensor, "channel batch length_input"]
Outputs = Float[Tensor, "channel batch length_output"]
State = Float[Tensor, "channel batch state"]
Kernel = Float[Tensor, "channel *input count_output"]


class Tables(NamedTuple):
    """What all chunks of one direction share."""

    columns: Float[Tensor, "channel state T_input"]
    """``A^(T-1-s) B``: what step ``s`` adds to the state after the chunk."""
    rows: Float[Tensor, "channel T_output state"]
    inside: Float[Tensor, "channel T_input T_output"]
    carry: Tensor

    @staticmethod
    def of(
        recurrence: Recurrence,
        chunk: int,
        D: Float[Tensor, "channel *input_output"] | None,
        dtype: torch.dtype,
        *,
        delayed: bool = False,
    ) -> list[Tables]:
        """For each direction; the skip belongs to the first. ``delayed``: a state sees the inputs before its step."""
        columns, rows, carry = recurrence.chunk_tables(chunk)
        columns = columns.to(dtype)
        m, p = recurrence.inputs, recurrence.outputs
        made = []
        for own, skip in zip((t.to(dtype) for t in rows), (D, None), strict=False):
            kernel = own[:, :p] @ columns
            kernel = kernel.unflatten(2, (chunk, m)).permute(0, 3, 2, 1).flatten(2)
            kernel = F.pad(kernel, (p, -p)) if delayed else kernel
            inside = _toeplitz(with_skip(kernel, skip), chunk)
            made.append(Tables(in_reverse(columns, m), own[:, :-p] if delayed else own[:, p:], inside, carry))
        return made


def with_skip(kernel: Kernel, D: Float[Tensor, "channel *input_output"] | None) -> Kernel:
    """``D u_t`` is one more term at lag 0."""
    if D is None:
        return kernel
    D = D.to(kernel.dtype)[(..., *[None] * (kernel.ndim - D.ndim))]
    return torch.cat([kernel[..., : D.shape[-1]] + D, kernel[..., D.shape[-1] :]], -1)


def in_reverse(columns: Float[Tensor, "channel state T_input"], inputs: int) -> Float[Tensor, "channel state T_input"]:
    """The last step first, its inputs in their order."""
    return columns.flip(-1) if inputs == 1 else columns.unflatten(-1, (-1, inputs)).flip(-2).flatten(-2)


def _toeplitz(kernel: Float[Tensor, "channel input T_output"], T: int) -> Float[Tensor, "channel T_input T_output"]:
    """``M[s, t] = kernel[t - s]``, zero below the diagonal.

    Rows of ``[kernel, 0]`` laid end to end and cut one step short slip by one step each.
    """
    channels, inputs, width = kernel.shape
    short = 2 * width - width // T
    rows = F.pad(kernel, (0, width))[:, :, None].expand(-1, -1, T, -1).reshape(channels, inputs, 2 * width * T)
    slipped = rows[..., : T * short].reshape(channels, inputs, T, short)[..., :width]
    return slipped[:, 0] if inputs == 1 else slipped.transpose(1, 2).reshape(channels, T * inputs, width)


def run_chunks(recurrence: Recurrence, tables: Tables, u: Inputs, x: State) -> tuple[Outputs, State]:
    """Outputs and the state after the last step: whole chunks first, then what is left."""
    columns, rows, inside, carry = tables
    (channels, batch, length), (_, size, width) = u.shape, inside.shape
    whole, rest = length // size, length % size
    parts = []
    if whole:
        U = u[..., : whole * size].reshape(channels, batch * whole, size)
        added = (U @ columns.mT).unflatten(1, (batch, whole))
        X = scan(added, carry, x)
        before = torch.cat([x[:, :, None], X[:, :, :-1]], 2).flatten(1, 2)
        parts.append(torch.baddbmm(U @ inside, before, rows.mT).reshape(channels, batch, whole * width))
        x = X[:, :, -1]
    if rest:
        U = u[..., whole * size :]
        steps = rest // recurrence.inputs
        wide = steps * recurrence.outputs
        parts.append(torch.baddbmm(U @ inside[:, :rest, :wide], x, rows[:, :wide].mT))
        x = times(recurrence.every(steps).transition.to(u.dtype), x) + U @ columns[..., -rest:].mT
    return parts[0] if len(parts) == 1 else torch.cat(parts, -1), x


def simulate(
    recurrence: Recurrence,
    u: Inputs,
    x: State,
    D: Float[Tensor, "channel input output"] | None = None,
    *,
    delayed: bool = False,
) -> tuple[Outputs, State]:
    """Outputs of systems with any number of inputs and outputs, and their last state."""
    length = u.shape[-1] // recurrence.inputs
    chunk = chunk_with_ports(length, len(u) * recurrence.inputs * recurrence.outputs)
    (tables,) = Tables.of(recurrence, chunk, D, u.dtype, delayed=delayed)
    return run_chunks(recurrence, tables, u, x)


def chunk_with_ports(length: int, entries: int) -> int:
    """Steps a chunk, one to three roots of the length, where a step of the Toeplitz matrices has so many entries."""
    chunk = 1 << min(8, max(4, length.bit_length() // 2 + 1))
    while chunk > 1 and chunk * chunk * entries > LARGEST_TABLE:
        chunk //= 2
    return min(chunk, length)
