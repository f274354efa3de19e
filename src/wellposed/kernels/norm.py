"""Layer norm and batch norm of sequences that lie channels first, with the way around a block.

Both hand their input on, beside the normalised sequences: what a block adds to its output later is that second tensor.
Its gradient then meets that of the norm inside one kernel, instead of in a sum of its own over memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from wellposed.kernels import fused
from wellposed.kernels.layout import Sequences, differentiable_gradients, rows
from wellposed.kernels.plain_norm import plain_batch_norm, plain_layer_norm
from wellposed.kernels.shared import SharedParameters
from wellposed.kernels.work import Work

if TYPE_CHECKING:
    from wellposed.kernels.gpu.batch_norm import Running

Channels = Float[Tensor, " channel"]
TrueLengths = Int[Tensor, " batch"]


def layer_norm(
    u: Sequences, weight: Channels, bias: Channels, eps: float, *, lengths: TrueLengths | None, dtype: torch.dtype
) -> tuple[Sequences, Sequences]:
    """Each step normalised over its channels, zero in the padding, whatever stood there; and ``u`` as it is."""
    return _LayerNorm.apply(u, weight, bias, eps, lengths, dtype)


def batch_norm(
    u: Sequences,
    weight: Channels,
    bias: Channels,
    eps: float,
    *,
    running: tuple[Channels, Channels, Tensor],
    momentum: float | None,
    training: bool,
    lengths: TrueLengths | None,
    dtype: torch.dtype,
    count_padding: bool = False,
) -> tuple[Sequences, Sequences]:
    """Each channel normalised over the true steps of the batch, zero in the padding; and ``u`` as it is.

    ``running`` holds mean, variance and the number of batches so far. In training they are moved, by a share of
    ``momentum``, or so that all batches count alike if it is ``None``; else they take the place of the batch's own.
    ``count_padding``: those of the batch are of padding too, as zeros.
    """
    from wellposed.kernels.gpu.batch_norm import Running

    return _BatchNorm.apply(u, weight, bias, eps, Running(*running, momentum, count_padding), training, lengths, dtype)


def batch_norm_into(
    work: Work,
    weight: Channels,
    bias: Channels,
    eps: float,
    *,
    running: tuple[Channels, Channels, Tensor],
    momentum: float | None,
    training: bool,
    dtype: torch.dtype,
    count_padding: bool = False,
) -> tuple[Sequences, Sequences] | None:
    """``batch_norm`` of ``work.u`` and the systems behind it, in one; ``None`` where kernels cannot."""
    if not fused.supports(work):
        return None
    from wellposed.kernels.gpu import normed_chunks, normed_shared
    from wellposed.kernels.gpu.batch_norm import Running

    shared = isinstance(work.system, SharedParameters)
    if shared and not normed_shared.supports(work):
        return None
    run = normed_shared.run if shared else normed_chunks.run
    return run(work, weight, bias, eps, Running(*running, momentum, count_padding), training, dtype)


class _LayerNorm(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, u: Tensor, weight: Tensor, bias: Tensor, eps: float, lengths: Tensor | None, dtype: torch.dtype
    ) -> tuple[Tensor, Tensor]:
        from wellposed.kernels.gpu import layer_norm as gpu

        out, moments = gpu.forward(rows(u), weight, bias, eps, lengths, dtype)
        ctx.save_for_backward(u, weight, bias, moments, lengths)
        ctx.set_materialize_grads(False)
        ctx.eps = eps
        return out, u

    @staticmethod
    def backward(ctx: Any, grad: Tensor | None, added: Tensor | None) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        from wellposed.kernels.gpu import layer_norm as gpu

        u, weight, bias, moments, lengths = ctx.saved_tensors
        if grad is None:
            return added, *[None] * 5
        if torch.is_grad_enabled():
            found = _again(lambda u, w, b: plain_layer_norm(u, w, b, ctx.eps, lengths), (u, weight, bias), grad, added)
            return *found, None, None, None
        du, dweight, dbias = gpu.backward(
            grad, None if added is None else rows(added), rows(u), weight, moments, lengths
        )
        return du.permute(1, 2, 0), dweight.to(weight.dtype), dbias.to(bias.dtype), None, None, None


class _BatchNorm(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        u: Tensor,
        weight: Tensor,
        bias: Tensor,
        eps: float,
        running: Running,
        training: bool,
        lengths: Tensor | None,
        dtype: torch.dtype,
    ) -> tuple[Tensor, Tensor]:
        from wellposed.kernels.gpu import batch_norm as gpu

        out, kept = gpu.forward(rows(u), weight, bias, eps, running, lengths, training, dtype)
        ctx.save_for_backward(u, weight, bias, kept, lengths)
        ctx.set_materialize_grads(False)
        ctx.eps, ctx.training, ctx.count_padding = eps, training, running.count_padding
        return out, u

    @staticmethod
    def backward(ctx: Any, grad: Tensor | None, added: Tensor | None) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        from wellposed.kernels.gpu import batch_norm as gpu

        u, weight, bias, kept, lengths = ctx.saved_tensors
        if grad is None:
            return added, *[None] * 7
        if torch.is_grad_enabled():
            fixed = None if ctx.training else kept[:2]
            found = _again(
                lambda u, w, b: plain_batch_norm(u, w, b, ctx.eps, lengths, fixed, count_padding=ctx.count_padding),
                (u, weight, bias),
                grad,
                added,
            )
            return *found, *[None] * 5
        du, dweight, dbias = gpu.backward(
            grad, None if added is None else rows(added), rows(u), weight, kept, lengths, ctx.training
        )
        return du.permute(1, 2, 0), dweight.to(weight.dtype), dbias.to(bias.dtype), *[None] * 5


def _again(function: Any, inputs: tuple[Tensor, ...], grad: Tensor, added: Tensor | None) -> list[Tensor | None]:
    du, *others = differentiable_gradients(function, inputs, grad.float())
    return [du if added is None or du is None else du + added, *others]
