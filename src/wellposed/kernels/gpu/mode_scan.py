"""Scans of complex modes over time, one system for all channels: ``x_t = lambda x_{t-1} + v_t`` and its mirror image.

A sequence is cut into tiles of ``STEPS`` steps, and every tile of every mode is a thread's own. Three launches, of
which none waits along the sequence: ``fold`` finds what each tile adds to the state at its end, ``carry`` scans these
sums in float64, ``run`` (or ``run_back``, for gradients) starts every tile from what it inherits. The second read of
the input costs what a second direction would: with two directions both are made from one.

Numbers of a step lie as ``[Re of all modes, Im of all modes]``, so that threads side by side read words side by side;
of two directions the second follows the first. docs/devdocs/gpu.md
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import triton
from jaxtyping import Float, Int
from torch import Tensor

from wellposed.kernels.device import interpreted
from wellposed.kernels.gpu import mode_kernels
from wellposed.kernels.gpu.launches import launch
from wellposed.kernels.gpu.sums import sum_of_parts

STEPS = 16
"""Steps a tile, a power of 2: a tile of a mode stays in registers, and the sums of tiles are 1/16 of the traffic. With
32 these are half, but Triton takes ten times as long to compile what is written out for every step."""
# Tiles, modes and warps a program: 4 bytes a thread and 128 a row.
_TILES = {torch.float32: (4, 32, 4), torch.bfloat16: (4, 64, 4)}
_AHEAD = 8  # steps of which a backward tile asks for all numbers before it writes any: loads do not pass stores
_CARRY_STEPS, _CARRY_MODES, _CARRY_WARPS = 64, 8, 1


class Modes(NamedTuple):
    """Eigenvalues of one step, and of a tile."""

    one: Float[Tensor, "2 mode"]
    tile: Float[Tensor, "2 mode"]
    """``lambda^STEPS`` in float64: a slow mode is multiplied by it many times."""


def states(
    v: Float[Tensor, "batch length state"],
    modes: Modes,
    directions: int,
    carries: Float[Tensor, "batch tiles wide"],
    lengths: Int[Tensor, " batch"] | None,
    last: Float[Tensor, "batch state"] | None,
) -> Float[Tensor, "batch length wide"]:
    """Every state, from those that ``carried`` found at the ends of tiles; also ``last``, where it is given."""
    batch, length, size = v.shape
    x = torch.empty(batch, length, directions * size, dtype=v.dtype, device=v.device)
    rows, blocks, tile = _blocks(v, size // 2)
    launch(
        mode_kernels.run,
        (rows * blocks,),
        *(v, x, carries, modes.one, lengths, last, batch, length, carries.shape[1] - 1, size // 2),
        DIRECTIONS=directions,
        PADDED=lengths is not None,
        LAST=last is not None,
        **tile,
    )
    return x


def carried(
    v: Float[Tensor, "batch length numbers"],
    modes: Modes,
    directions: int,
    state: Float[Tensor, "batch state"] | None = None,
    *,
    adjoint: bool = False,
) -> Float[Tensor, "batch tiles wide"]:
    """The states between tiles: row ``j`` holds the forward one before tile ``j``, row ``j + 1`` the other after it.

    ``adjoint``: of the scans that gradients obey, which run the other way with conjugate modes; ``v`` then has an own
    part for each direction.
    """
    (batch, length, _), P = v.shape, modes.one.shape[1]
    tiles = -(-length // STEPS)
    carries = torch.empty(batch, tiles + 1, directions * 2 * P, dtype=torch.float32, device=v.device)
    rows, blocks, tile = _blocks(v, P)
    launch(
        mode_kernels.fold,
        (rows * blocks,),
        *(v, carries, modes.one, batch, length, tiles, P),
        DIRECTIONS=directions,
        ADJOINT=adjoint,
        **tile,
    )
    wide = min(_CARRY_MODES, int(triton.next_power_of_2(P)))
    tile = {"STEPS": min(_CARRY_STEPS, triton.next_power_of_2(tiles)), "MODES": wide, "num_warps": _CARRY_WARPS}
    launch(
        mode_kernels.carry,
        (batch, -(-P // wide), directions),
        *(carries, modes.tile, state, tiles, P),
        DIRECTIONS=directions,
        ADJOINT=adjoint,
        STATE=state is not None,
        **tile,
    )
    return carries


def gradients(
    g: Float[Tensor, "batch length wide"],
    x: Float[Tensor, "batch length wide"],
    modes: Modes,
    directions: int,
    carries: Float[Tensor, "batch tiles wide"],
) -> tuple[Float[Tensor, "batch length state"], Float[Tensor, "2 mode"]]:
    """Of the input and, in float64, of ``lambda``, but for what an initial state adds, from those of the states."""
    (batch, length, _), P = g.shape, modes.one.shape[1]
    rows, blocks, tile = _blocks(g, P)
    dv = torch.empty(batch, length, 2 * P, dtype=g.dtype, device=g.device)
    partial = torch.empty(rows, 2, P, dtype=torch.float32, device=g.device)
    launch(
        mode_kernels.run_back,
        (rows * blocks,),
        *(g, x, dv, partial, carries, modes.one, batch, length, carries.shape[1] - 1, P),
        DIRECTIONS=directions,
        AHEAD=_AHEAD,
        **tile,
    )
    return dv, sum_of_parts(partial)


def _blocks(v: Tensor, P: int) -> tuple[int, int, dict[str, Any]]:
    """Programs along the tiles, along the modes, and what one takes."""
    rows, modes, warps = _TILES[v.dtype]
    # The interpreter takes as long for a large block as for a small one.
    rows, modes = (64 if interpreted() else rows), min(modes, int(triton.next_power_of_2(P)))
    tiles = v.shape[0] * -(-v.shape[1] // STEPS)
    return -(-tiles // rows), -(-P // modes), {"T": STEPS, "ROWS": rows, "MODES": modes, "num_warps": warps}
