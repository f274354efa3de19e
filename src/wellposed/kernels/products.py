"""Matrix products that sum over all steps of a batch: gradients of weights."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

_TILE, _PROGRAMS, _SHORTEST = 128, 264, 1024  # of a product on a GPU: its tile, tiles that fill it twice, steps in each


def sum_over_steps(a: Float[Tensor, "m step"], b: Float[Tensor, "n step"]) -> Float[Tensor, "m n"]:
    """``a @ b.T`` for few rows and very many steps.

    On a GPU a result of a few tiles would keep a few multiprocessors busy: the steps are cut into pieces whose products
    are added up, always in the same order.
    """
    pieces = _pieces(a.shape[0], b.shape[0], a.shape[1]) if a.is_cuda else 1
    if pieces == 1:
        return a @ b.mT
    A, B = (t.unflatten(1, (pieces, -1)).transpose(0, 1) for t in (a, b))
    return (A @ B.mT).sum(0)


def _pieces(m: int, n: int, steps: int) -> int:
    tiles, pieces = -(-m // _TILE) * -(-n // _TILE), 1
    while 2 * pieces * tiles <= _PROGRAMS and steps % (2 * pieces) == 0 and steps // (2 * pieces) >= _SHORTEST:
        pieces *= 2
    return pieces
