"""Products of matrices as exact as float32, in three passes of tf32: what cuBLAS does on slower units.

Matrix units take their second operand from shared memory with the terms of a sum side by side, and their first from
registers, in any order. So the smaller operand, the weights, goes second, if need be as the transposed product
``out^T = b^T a^T``, and is copied where its terms lie apart. The steps of a batch are the rows of tiles.
docs/devdocs/gpu.md
"""

from __future__ import annotations

from typing import Any, NamedTuple, no_type_check

import torch
import triton.language as tl
from jaxtyping import Float
from torch import Tensor

from wellposed.kernels.gpu.launches import launch
from wellposed.kernels.gpu.pieces import jit
from wellposed.kernels.gpu.tiles import divide_up

Matrix = Float[Tensor, "row column"]
Left = Float[Tensor, "row term"]
Right = Float[Tensor, "term column"]


class Tile(NamedTuple):
    """What a program computes: so many rows and columns, so many terms at once."""

    rows: int
    columns: int
    terms: int
    warps: int
    stages: int


_TILES = {
    "product, rows": Tile(128, 64, 32, 4, 3),
    "product, terms": Tile(128, 64, 32, 4, 3),
    "sum, rows": Tile(128, 128, 32, 8, 3),
    "sum, terms": Tile(128, 64, 32, 4, 3),
}
"""By what lies side by side in the first operand: its rows, or the terms of a sum."""
_PROGRAMS, _SHORTEST = 256, 1024
"""Where sums over steps are cut into pieces: programs there are to be, and steps each has at least."""


def product(a: Left, b: Right, out: Matrix | None = None, *, add: bool = False) -> Matrix:
    """``a @ b``, whatever the strides; into ``out`` if there is one, or added to what is there."""
    if out is None:
        out = torch.empty(a.shape[0], b.shape[1], dtype=torch.float32, device=a.device)
    first, second, place = a, b, out
    if a.numel() < b.numel():
        first, second, place = b.t(), a.t(), out.t()
    if second.stride(0) != 1:
        second = second.t().contiguous().t()
    tile = _TILES["product, rows" if first.stride(0) == 1 else "product, terms"]
    _launch(first, second, place[None], tile, divide_up(first.shape[1], tile.terms) * tile.terms, add)
    return out


def sum_over_steps(a: Float[Tensor, "m step"], b: Float[Tensor, "n step"]) -> Float[Tensor, "m n"]:
    """``a @ b.T`` of very many steps, best where those of one of them lie side by side."""
    (m, steps), n = a.shape, len(b)
    # The operand with its steps apart goes first; of two that are alike, the larger: tiles have more rows than columns.
    turned = (b.stride(1) != 1, n) > (a.stride(1) != 1, m)
    first, second = (b, a) if turned else (a, b)
    tile = _TILES["sum, rows" if first.stride(0) == 1 else "sum, terms"]
    each = _steps_of_a_piece(first.shape[0], second.shape[0], steps, tile)
    parts = torch.empty(divide_up(steps, each), m, n, dtype=torch.float32, device=a.device)
    _launch(first, second.t(), parts.mT if turned else parts, tile, each)
    return parts.sum(0) if len(parts) > 1 else parts[0]


def _steps_of_a_piece(m: int, n: int, steps: int, tile: Tile) -> int:
    """A result of a few tiles would keep a few multiprocessors busy: pieces of the steps fill the card."""
    pieces = divide_up(_PROGRAMS, divide_up(m, tile.rows) * divide_up(n, tile.columns))
    each = max(divide_up(steps, pieces), min(_SHORTEST, steps))
    return divide_up(each, tile.terms) * tile.terms


def _launch(a: Tensor, b: Tensor, parts: Tensor, tile: Tile, each: int, add: bool = False) -> None:
    """Products of pieces of ``each`` terms, all whole multiples of a tile's but the last, into ``parts``."""
    (m, terms), n = a.shape, b.shape[1]
    constants: dict[str, Any] = {"ROWS": tile.rows, "COLUMNS": tile.columns, "TERMS": tile.terms, "ADD": add}
    grid = (divide_up(m, tile.rows) * divide_up(n, tile.columns), len(parts))
    sizes = (m, n, terms, each, *a.stride(), *b.stride(), *parts.stride())
    launch(_product, grid, a, b, parts, *sizes, **constants, STAGES=tile.stages, num_warps=tile.warps)


@jit
@no_type_check
def _product(
    a,
    b,
    out,
    M,
    N,
    K,
    each,
    a_row,
    a_term,
    b_term,
    b_column,
    out_piece,
    out_row,
    out_column,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    TERMS: tl.constexpr,
    ADD: tl.constexpr,
    STAGES: tl.constexpr,
):
    # Programs that run side by side share their rows, which are many and are read from memory once.
    across = tl.cdiv(N, COLUMNS)
    m = (tl.program_id(0) // across).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    n = (tl.program_id(0) % across).to(tl.int64) * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    piece = tl.program_id(1).to(tl.int64)
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    for k in tl.range(0, each, TERMS, num_stages=STAGES):
        term = piece * each + k + tl.arange(0, TERMS)
        left = tl.load(a + m * a_row + term[None, :] * a_term, (m < M) & (term[None, :] < K), other=0.0)
        right = tl.load(b + term[:, None] * b_term + n * b_column, (term[:, None] < K) & (n < N), other=0.0)
        # Each starts from zero and is added outside of the units, which may cut off where they should round.
        total = tl.dot(left, right, total, input_precision="tf32x3")
    inside = (m < M) & (n < N)
    at = out + piece * out_piece + m * out_row + n * out_column
    if ADD:
        total += tl.load(at, inside, other=0.0)
    tl.store(at, total, inside)
