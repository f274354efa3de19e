"""Discrete time without a loop over it: orbits by doubling, chunks by matrix products, carries by a scan.

A sequence is cut into chunks of T steps. Inside a chunk the output is a Toeplitz product; each chunk folds into one
state; the states between chunks obey a recurrence with the fixed matrix A^T, solved by recursive doubling; and
what a carried state adds is one more matrix product. docs/devdocs/simulate.md has the algebra.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Shaped
from torch import Tensor

Read = Callable[[Tensor], Tensor]


@runtime_checkable
class Step(Protocol):
    """Multiplication by a state matrix ``A`` of some structure."""

    def right(self, X: Shaped[Tensor, "*batch k n m"]) -> Shaped[Tensor, "*batch k n m"]:
        """``A X``."""
        ...

    def left(self, X: Shaped[Tensor, "*batch k p n"]) -> Shaped[Tensor, "*batch k p n"]:
        """``X A``."""
        ...

    def squared(self) -> Step:
        """The step of ``A A``."""
        ...


def _orbit(advance: Callable[[Step, Tensor], Tensor], step: Step, X: Tensor, count: int) -> Tensor:
    X = X[..., None, :, :]
    while X.shape[-3] < count:
        X = torch.cat([X, advance(step, X)], dim=-3)
        step = step.squared() if X.shape[-3] < count else step
    return X[..., :count, :, :]


def orbit_right(step: Step, B: Tensor, count: int) -> Shaped[Tensor, "*batch count n m"]:
    """``B, AB, A^2 B, ...``"""
    return _orbit(lambda s, X: s.right(X), step, B, count)


def orbit_left(step: Step, C: Tensor, count: int) -> Shaped[Tensor, "*batch count p n"]:
    """``C, CA, CA^2, ...``"""
    return _orbit(lambda s, X: s.left(X), step, C, count)


def _power_of_two(step: Step, exponent: int) -> Step:
    for _ in range(exponent):
        step = step.squared()
    return step


def _einsum(equation: str, *tensors: Tensor) -> Tensor:
    dtype = tensors[0].dtype
    for t in tensors[1:]:
        dtype = torch.promote_types(dtype, t.dtype)
    return torch.einsum(equation, *(t.to(dtype) for t in tensors))


def kernel(step: Step, B: Tensor, C: Tensor, length: int, read: Read) -> Shaped[Tensor, "*batch length p m"]:
    """``C A^k B`` for ``k < length``, from about ``2 sqrt(length)`` powers of A."""
    exponent = max(0, (length - 1).bit_length() // 2)
    T = 1 << exponent
    rows = orbit_left(_power_of_two(step, exponent), C, -(-length // T))
    columns = orbit_right(step, B, min(T, length))
    K = read(_einsum("...cpn,...tnm->...ctpm", rows, columns))
    return K.flatten(-4, -3)[..., :length, :, :]


def run(
    step: Step, B: Tensor, C: Tensor, u: Tensor, state: Tensor | None, delayed: bool, read: Read
) -> tuple[Shaped[Tensor, "*batch length p"], Shaped[Tensor, "*batch n"]]:
    """Outputs ``C x_t`` for the inputs ``u`` (without D), and the state after the last of them."""
    length = u.shape[-2]
    exponent = min(8, max(2, (length - 1).bit_length() // 2))
    T = 1 << exponent
    chunks = -(-length // T)
    padded = torch.nn.functional.pad(u, (0, 0, 0, chunks * T - length)).unflatten(-2, (chunks, T))

    columns = orbit_right(step, B, T)
    K = read(_einsum("...pn,...tnm->...tpm", C, columns))
    rows = orbit_left(step, C, T + 1)
    K, rows = (
        (torch.cat([torch.zeros_like(K[..., :1, :, :]), K[..., :-1, :, :]], -3), rows[..., :T, :, :])
        if (delayed)
        else (K, rows[..., 1:, :, :])
    )

    folded = _einsum("...tnm,...ctm->...cn", columns.flip(-3), padded)
    carried = _carry(_power_of_two(step, exponent), folded, state)
    y = _einsum("...tspm,...csm->...ctp", _toeplitz(K), padded)
    y = y + read(_einsum("...tpn,...cn->...ctp", rows, carried[..., :-1, :]))

    rest = length - (chunks - 1) * T
    last = carried[..., -2, :, None, None].transpose(-3, -2)  # the state before the last chunk, as one column
    end = _advance(step, last, rest)[..., 0, :, 0]
    end = end + _einsum("...tnm,...tm->...n", columns[..., :rest, :, :].flip(-3), padded[..., -1, :rest, :])
    return y.flatten(-3, -2)[..., :length, :], end


def _toeplitz(K: Shaped[Tensor, "*batch t p m"]) -> Shaped[Tensor, "*batch t t p m"]:
    """Lower-triangular block Toeplitz matrix with first block column ``K``."""
    T = K.shape[-3]
    t = torch.arange(T, device=K.device)
    lag = t[:, None] - t
    return torch.where((lag >= 0)[..., None, None], K[..., lag.clamp(min=0), :, :], 0)


def _carry(step: Step, folded: Shaped[Tensor, "*batch c n"], state: Tensor | None) -> Tensor:
    """States before each chunk and after the last: ``x_0 = state, x_{c+1} = A x_c + folded_c``."""
    zero = torch.zeros_like(folded[..., :1, :])
    if state is not None:
        zero = zero + state[..., None, :]
        folded = folded.expand(zero.shape[:-2] + folded.shape[-2:])
    x = torch.cat([zero.to(torch.promote_types(zero.dtype, folded.dtype)), folded], dim=-2)[..., None]
    reach = 1
    while reach < x.shape[-3]:
        moved = step.right(x[..., :-reach, :, :])
        x = torch.cat([x[..., :reach, :, :], x[..., reach:, :, :] + moved], dim=-3)
        reach *= 2
        step = step.squared() if reach < x.shape[-3] else step
    return x[..., 0]


def _advance(step: Step, X: Tensor, count: int) -> Tensor:
    """``A^count X``."""
    while count:
        X = step.right(X) if count % 2 else X
        count //= 2
        step = step.squared() if count else step
    return X
