"""Matrix products of all steps of a batch with weights, and sums over the steps: gradients of weights.

On a GPU cuBLAS multiplies in tf32 where PyTorch's switch allows it. Where it does not, three passes of tf32 of our own
are as exact as float32 and faster: docs/devdocs/gpu.md
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from wellposed.kernels import layout
from wellposed.kernels.device import dot_precision, triton_takes

_TILE, _PROGRAMS, _SHORTEST = 128, 264, 1024  # of cuBLAS: its tile, tiles that fill a GPU twice, steps in each
LEAST_SIDE, LEAST_WORK = 32, 2**31
"""From where on products of our own pay: each of the three sizes, and their product, multiply-adds in all."""

Matrix = Float[Tensor, "row column"]
Left = Float[Tensor, "row term"]
Right = Float[Tensor, "term column"]


def product(a: Left, b: Right, *, out: Matrix | None = None, add: bool = False) -> Matrix:
    """``a @ b``; into ``out`` if there is one, or added to what is there."""
    if _three_passes_pay(a, b, a.shape[0], a.shape[1], b.shape[1]):
        from wellposed.kernels.gpu import product as gpu

        return gpu.product(a, b, out, add=add)
    if out is None:
        return torch.mm(a, b)
    return out.addmm_(a, b) if add else torch.mm(a, b, out=out)


def sum_over_steps(a: Float[Tensor, "m step"], b: Float[Tensor, "n step"]) -> Float[Tensor, "m n"]:
    """``a @ b.T`` for few rows and very many steps.

    On a GPU a result of a few tiles would keep a few multiprocessors busy: the steps are cut into pieces whose products
    are added up, always in the same order.
    """
    # With the steps of both apart, matrix units would take neither operand as it lies.
    if 1 in (a.stride(1), b.stride(1)) and _three_passes_pay(a, b, a.shape[0], a.shape[1], b.shape[0]):
        from wellposed.kernels.gpu import product as gpu

        return gpu.sum_over_steps(a, b)
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


def _three_passes_pay(a: Tensor, b: Tensor, *sizes: int) -> bool:
    """Whether these are for our own kernel: in float32, of that precision, large, and outside of what needs PyTorch."""
    m, k, n = sizes
    if min(sizes) < LEAST_SIDE or m * k * n < LEAST_WORK:
        return False
    if a.device.type not in layout.FASTEST_ON or a.device != b.device:
        return False
    if a.dtype != torch.float32 or b.dtype != torch.float32 or dot_precision(a.dtype) != "tf32x3":
        return False
    if 1 not in a.stride() or 1 not in b.stride() or torch.compiler.is_compiling():
        return False
    if torch.is_grad_enabled() and (a.requires_grad or b.requires_grad):  # kernels have no derivative
        return False
    return triton_takes(a, b)
