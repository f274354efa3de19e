"""The recurrence ``x_j = A x_{j-1} + s_j`` over many steps at once, forwards and backwards.

``A`` is given per channel, either as ``(channel, state)``, real and imaginary parts in turn of a diagonal complex
matrix (states are laid out alike), or as a real matrix ``(channel, state, state)``. Steps are grouped: all groups
advance side by side to find what each adds, these sums are scanned in turn by the same rule, and a second pass starts
every group from what it inherits. The number of operations one after another grows like the logarithm of the length.
docs/devdocs/layers.md
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from wellposed.kernels.device import exporting, transformed

GROUP = 16
_FEW = 32
"""Steps that matrices take one after another: their powers, for groups, would cost more than they spare."""

Steps = Float[Tensor, "channel batch step state"]
State = Float[Tensor, "channel batch state"]


def scan(s: Steps, A: Float[Tensor, "channel state *state"], x0: State) -> Steps:
    """Every state ``x_0 .. x_{J-1}`` that follows ``x_{-1} = x0``.

    ``A`` may be of higher precision than the states: its powers are, and only their products with states are not.
    """
    if exporting():
        return doubling(s, A, x0)
    return _apply(s, A.to(s.dtype) if _few_matrices(s, A) else A, x0)


def times(A: Tensor, x: Tensor) -> Tensor:
    """``A x`` for states ``(channel, ..., state)``, in real arithmetic."""
    if A.ndim == 3:
        return torch.einsum("h...s,hrs->h...r", x, A)
    a, b = A.reshape(A.shape[0], *[1] * (x.ndim - 2), A.shape[1] // 2, 2).unbind(-1)
    re, im = x.unflatten(-1, (-1, 2)).unbind(-1)
    return torch.stack([a * re - b * im, a * im + b * re], -1).flatten(-2)


def power_of_two(A: Tensor, log2: int) -> Tensor:
    """``A^(2^log2)``."""
    for _ in range(log2):
        A = A @ A if A.ndim == 3 else A * A if A.is_complex() else times(A, A)
    return A


def adjoint(A: Tensor) -> Tensor:
    """The transposed real matrix; for a diagonal one, conjugate eigenvalues."""
    if A.ndim == 3:
        return A.mT
    a, b = A.unflatten(-1, (-1, 2)).unbind(-1)
    return torch.stack([a, -b], -1).flatten(-2)


def doubling(s: Tensor, A: Tensor, x0: Tensor) -> Tensor:
    """The same by plain operations, for exporters: after k rounds each state knows the last ``2^k`` inputs."""
    x = torch.cat([s[:, :, :1] + times(A.to(s.dtype), x0)[:, :, None], s[:, :, 1:]], 2)
    shift = 1
    while shift < s.shape[2]:
        x = torch.cat([x[:, :, :shift], x[:, :, shift:] + times(A.to(s.dtype), x[:, :, :-shift])], 2)
        A, shift = power_of_two(A, 1), 2 * shift
    return x


@torch.library.custom_op("wellposed::scan", mutates_args=(), schema="(Tensor s, Tensor A, Tensor x0) -> Tensor")
def _opaque_scan(s: Tensor, A: Tensor, x0: Tensor) -> Tensor:
    """For compilers: they would unroll the loops."""
    return _plain_scan(s, A, x0)


@_opaque_scan.register_fake
def _(s: Tensor, A: Tensor, x0: Tensor) -> Tensor:
    return torch.empty(s.shape, dtype=s.dtype, device=s.device)


def _plain_scan(s: Tensor, A: Tensor, x0: Tensor) -> Tensor:
    if _few_matrices(s, A):
        return _scan_matrices(s, A.to(s.dtype), x0)
    s, A, x0 = _aligned(s), _aligned(A), _aligned(x0)
    out = torch.empty(s.shape, dtype=s.dtype, device=s.device)
    if A.ndim == 2:  # complex numbers are safe here, out of the compilers' sight
        _scan_into(*(torch.view_as_complex(t.unflatten(-1, (-1, 2))) for t in (out, s, A, x0)))
    else:
        _scan_into(out, s, A, x0)
    return out


def _few_matrices(s: Tensor, A: Tensor) -> bool:
    return A.ndim == 3 and s.shape[2] <= _FEW


def _scan_matrices(s: Tensor, A: Tensor, x: Tensor, *, backwards: bool = False) -> Tensor:
    """Step by step, with time in front, so that what a product reads and writes lies in one piece."""
    turned, x = A.mT.contiguous(), x.contiguous()
    states = s.permute(2, 0, 1, 3).clone(memory_format=torch.contiguous_format)
    for step in reversed(states.unbind()) if backwards else states.unbind():
        x = step.baddbmm_(x, turned)
    return states.permute(1, 2, 0, 3).contiguous()


def _aligned(t: Tensor) -> Tensor:
    """Laid out so that pairs of real numbers can be read as complex ones."""
    return t.contiguous() if t.storage_offset() % 2 == 0 else t.clone(memory_format=torch.contiguous_format)


def _scan_into(out: Tensor, s: Tensor, A: Tensor, x0: Tensor) -> None:
    J = s.shape[2]
    whole = J - J % GROUP if J > GROUP else 0
    last, one = x0, A.to(s.dtype)
    if whole:
        groups = out[:, :, :whole].unflatten(2, (-1, GROUP))
        inputs = s[:, :, :whole].unflatten(2, (-1, GROUP))
        added = inputs[..., 0, :].clone(memory_format=torch.contiguous_format)
        for i in range(1, GROUP):
            _advance(added, one, added, inputs[..., i, :])
        ends = torch.empty_like(added)
        _scan_into(ends, added, power_of_two(A, GROUP.bit_length() - 1), x0)
        state = torch.cat([x0[:, :, None], ends[:, :, :-1]], 2)
        for i in range(GROUP):
            state = _advance(groups[..., i, :], one, state, inputs[..., i, :])
        last = ends[:, :, -1]
    for j in range(whole, J):
        last = _advance(out[:, :, j], one, last, s[:, :, j])


def _advance(out: Tensor, A: Tensor, x: Tensor, s: Tensor) -> Tensor:
    """``out = A x + s``, and the same in one piece where the next product would have to copy it."""
    if A.ndim == 3:
        x = times(A, x).add_(s)
        out.copy_(x)
        return x
    return torch.addcmul(s, A.reshape(A.shape[0], *[1] * (x.ndim - 2), A.shape[1]), x, out=out)


class _Scan(torch.autograd.Function):
    @staticmethod
    def forward(s: Tensor, A: Tensor, x0: Tensor) -> Tensor:
        # The first call of an operator of one's own loads the compiler, which takes seconds.
        return (_opaque_scan if torch.compiler.is_compiling() else _plain_scan)(s, A, x0)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        _, A, x0 = inputs
        ctx.save_for_backward(A, x0, output)
        ctx.save_for_forward(A, x0, output)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The adjoint recurrence runs the other way: ``r_j = g_j + A^T r_{j+1}``."""
        A, x0, x = ctx.saved_tensors
        back = adjoint(A)
        r = _scan_back(grad, back, torch.zeros_like(x0))
        before = torch.cat([x0[:, :, None], x[:, :, :-1]], 2)
        return r, _gradient_of_A(A, r, before).to(A.dtype), times(back.to(r.dtype), r[:, :, 0])

    @staticmethod
    def vmap(info: Any, in_dims: Any, s: Tensor, A: Tensor, x0: Tensor) -> tuple[Tensor, int]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Channels are independent: a mapped dimension joins them."""
        size = info.batch_size
        front = [
            t.movedim(d, 0) if d is not None else t.expand(size, *t.shape)
            for t, d in zip((s, A, x0), in_dims, strict=True)
        ]
        out = _apply(*(t.flatten(0, 1) for t in front))
        return out.unflatten(0, (size, -1)), 0


class _ScanWithTangents(_Scan):
    """Forward-mode derivatives besides, which the compiler does not take."""

    @staticmethod
    def jvp(ctx: Any, s_t: Tensor | None, A_t: Tensor | None, x0_t: Tensor | None) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The same recurrence of the tangents, ``x_t' = A x_{t-1}' + (s_t' + A' x_{t-1})``."""
        A, x0, x = ctx.saved_tensors
        added = torch.zeros_like(x) if s_t is None else s_t
        if A_t is not None:
            added = added + times(A_t.to(x.dtype), torch.cat([x0[:, :, None], x[:, :, :-1]], 2))
        return _apply(added, A, torch.zeros_like(x0) if x0_t is None else x0_t)


def _apply(s: Tensor, A: Tensor, x0: Tensor) -> Tensor:
    return (_Scan if torch.compiler.is_compiling() else _ScanWithTangents).apply(s, A, x0)


def _scan_back(grad: Tensor, A: Tensor, x: Tensor) -> Tensor:
    """From the last step to the first."""
    seen = torch.is_grad_enabled() or torch.compiler.is_compiling() or transformed()
    if _few_matrices(grad, A) and not seen:
        return _scan_matrices(grad, A, x, backwards=True)
    return _apply(grad.flip(2), A, x).flip(2)


def _gradient_of_A(A: Tensor, r: Tensor, x: Tensor) -> Tensor:
    if A.ndim == 3:
        return torch.einsum("hbjr,hbjs->hrs", r, x)
    (p, q), (re, im) = (t.unflatten(-1, (-1, 2)).unbind(-1) for t in (r, x))
    return torch.stack([(p * re + q * im).sum((1, 2)), (q * re - p * im).sum((1, 2))], -1).flatten(-2)
