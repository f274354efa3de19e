"""Batch norm and the systems behind it in one: the normalised sequence is never written down.

Kernels normalise what they read, a factor and two numbers a channel; and where they write the gradient of that, they
leave the sums that the gradient of the norm needs. Beside the input of the norm nothing as long as the sequence waits
for backward: states are found again, by a walk. In bfloat16, where they take half as much, they are kept.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from wellposed.kernels.device import dot_precision
from wellposed.kernels.gpu import batch_norm, makers
from wellposed.kernels.gpu.batch_norm import Running
from wellposed.kernels.gpu.chunks import sizes_of, states_of
from wellposed.kernels.gpu.gradients import gradients
from wellposed.kernels.gpu.launches import on_device_of
from wellposed.kernels.gpu.makers import MAKERS
from wellposed.kernels.gpu.outputs import outputs
from wellposed.kernels.gpu.pieces import Norm, Sizes
from wellposed.kernels.gpu.plain import plain_convolution
from wellposed.kernels.gpu.states import walk
from wellposed.kernels.gpu.tiles import new_sequences
from wellposed.kernels.layout import differentiable_gradients, rows
from wellposed.kernels.plain_norm import plain_batch_norm
from wellposed.kernels.work import Work


def run(
    work: Work, weight: Tensor, bias: Tensor, eps: float, running: Running, training: bool, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """What the systems make of ``work.u`` normalised, and ``work.u`` as it is."""
    sizes = sizes_of(work)
    kind, values = makers.of(work, sizes)
    how = (eps, running, training, dtype, sizes, kind)
    return _NormedChunks.apply(work.u, weight, bias, work.lengths, how, *values)


class _NormedChunks(torch.autograd.Function):
    """Of sequences that lie channels first."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, lengths: Tensor | None, how: Any, *values: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        eps, running, training, dtype, sizes, kind = how
        X, precision = rows(x), dot_precision(dtype)
        with on_device_of(x):
            moments = batch_norm.moments(X, weight, bias, eps, running, lengths, training)
            norm = Norm(moments, lengths, dtype)
            tables, *kept = MAKERS[kind].make(values, sizes)
            states = states_of(X, None, tables, sizes, precision, norm)
            y = new_sequences(X, dtype)
            outputs(X, states, tables, sizes, y.permute(2, 0, 1), precision=precision, norm=norm)
        states = states if dtype == torch.bfloat16 else None
        ctx.save_for_backward(x, weight, bias, lengths, moments, states, tables, *kept, *values)
        ctx.set_materialize_grads(False)
        ctx.rest = eps, running.count_padding, training, dtype, precision, sizes, kind, len(kept)
        return y, x

    @staticmethod
    def backward(ctx: Any, dy: Tensor | None, added: Tensor | None) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        x, weight, bias, lengths, moments, states, tables, *others = ctx.saved_tensors
        eps, count_padding, training, dtype, precision, sizes, kind, count = ctx.rest
        kept, values = others[:count], others[count:]
        if dy is None:
            return added, *[None] * (4 + len(values))
        if torch.is_grad_enabled():  # gradients that are to be differentiated in turn

            def again(x: Tensor, weight: Tensor, bias: Tensor, *values: Any) -> Tensor:
                fixed = None if training else moments[:2]
                u = plain_batch_norm(x, weight, bias, eps, lengths, fixed, count_padding=count_padding)
                tables = MAKERS[kind].plain(values, sizes)
                return plain_convolution(u.permute(2, 0, 1), None, tables, sizes).permute(1, 2, 0)

            dx, *found = differentiable_gradients(again, (x, weight, bias, *values), dy.float())
            dx = dx if added is None or dx is None else dx + added
            return dx, *found[:2], None, None, *found[2:]
        norm = Norm(moments, lengths, dtype)
        with on_device_of(x):
            states = states_of(rows(x), None, tables, sizes, precision, norm) if states is None else states
            du, sums, found = _adjoint(rows(dy), rows(x), states, tables, sizes, norm, precision)
            found = MAKERS[kind].gradients(values, kept, sizes, found)
            around = None if added is None else rows(added)
            dx, dw, db = batch_norm.backward(du, around, rows(x), weight, moments, lengths, training, sums)
        found = [None if value is None else gradient for gradient, value in zip(found, values, strict=True)]
        return dx.permute(1, 2, 0), dw.to(weight.dtype), db.to(bias.dtype), None, None, *found


def _adjoint(
    G: Tensor, X: Tensor, states: Tensor, tables: Tensor, sizes: Sizes, norm: Norm, precision: str
) -> tuple[Tensor, Tensor | None, Tensor]:
    """Gradient of the normalised sequences, the sums over it that the norm wants, and the gradient of the tables."""
    adjoints, partial = states, None
    if states.numel():
        adjoints, partial, _ = walk(G, tables, sizes, precision=precision, states=states)
    du = new_sequences(X, norm.dtype)
    into = du.permute(2, 0, 1)
    found, sums = gradients(X, G, states, adjoints, partial, tables, sizes, into, precision=precision, norm=norm)
    return du, sums, found
