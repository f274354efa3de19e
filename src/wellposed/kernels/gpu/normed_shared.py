"""Batch norm and one system for all channels behind it in one.

The skip ``D u`` and the normalised sequence ``u`` come from one read of the input; the gradient of the norm adds the
two parts of that of ``u`` as it reads them. ``u`` is an operand of ``dB = dV^T U`` and must be there as a matrix: where
it would be much of what waits for backward, the norm writes it once more. ``norm_skip``, docs/devdocs/gpu.md
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from wellposed.kernels import chunks
from wellposed.kernels.gpu import batch_norm, discretize
from wellposed.kernels.gpu.batch_norm import Running
from wellposed.kernels.gpu.discretize import Parameters
from wellposed.kernels.gpu.launches import on_device_of
from wellposed.kernels.gpu.norm_skip import Gradients, gradient_sums, gradients, normalised_and_skip
from wellposed.kernels.gpu.pieces import Norm
from wellposed.kernels.gpu.shared import parameters_of
from wellposed.kernels.gpu.shared_passes import Saved, adjoint, states_of
from wellposed.kernels.gpu.tiles import new_sequences
from wellposed.kernels.layout import differentiable_gradients, rows
from wellposed.kernels.plain_norm import plain_batch_norm
from wellposed.kernels.products import product, sum_over_steps
from wellposed.kernels.shared import SharedParameters
from wellposed.kernels.work import Work

_WIDE = 2
"""The normalised sequence is kept where states, which are, take more than so many times its memory: it is then less
than a sixth of what a block keeps (input, output, the gate's product, states), and made again it costs a pass."""


def supports(work: Work) -> bool:
    """Whole sequences from zero states, with a skip; of what ``shared`` supports."""
    return work.D is not None and work.state is None and not work.want_state


def run(
    work: Work, weight: Tensor, bias: Tensor, eps: float, running: Running, training: bool, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """What the system makes of ``work.u`` normalised, and ``work.u`` as it is."""
    assert isinstance(work.system, SharedParameters)
    how = (eps, running, training, dtype, work.system.disc)
    assert work.D is not None
    return _NormedShared.apply(work.u, weight, bias, work.lengths, how, work.D.float(), *parameters_of(work.system))


class _NormedShared(torch.autograd.Function):
    """Of sequences that lie channels first."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, lengths: Tensor | None, how: Any, D: Tensor, *values: Tensor
    ) -> tuple[Tensor, Tensor]:
        eps, running, training, dtype, disc = how
        X, parameters = rows(x), Parameters(*values)
        with on_device_of(x), torch.autocast(x.device.type, enabled=False):  # operands have their precision already
            moments = batch_norm.moments(X, weight, bias, eps, running, lengths, training)
            tables = discretize.tables(parameters, disc, dtype)
            u, y = normalised_and_skip(X, D.contiguous(), Norm(moments, lengths, dtype))
            states = states_of(u, tables, len(parameters.C))
            product(states.flatten(0, 1), tables.C.t(), out=y.flatten(0, 1), add=True)
        u = u if states.shape[2] > _WIDE * u.shape[2] else None
        saved = Saved(states, *tables.modes, tables.B, tables.C)
        ctx.save_for_backward(x, weight, bias, lengths, moments, u, *saved, D, *values)
        ctx.set_materialize_grads(False)
        ctx.rest = eps, running.count_padding, training, dtype, disc
        return y, x

    @staticmethod
    def backward(ctx: Any, dy: Tensor | None, added: Tensor | None) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        x, weight, bias, lengths, moments, u, *others = ctx.saved_tensors
        eps, count_padding, training, dtype, disc = ctx.rest
        saved, D, parameters = Saved(*others[:5]), others[5], Parameters(*others[6:])
        if dy is None:
            return added, *[None] * (5 + len(parameters))
        if torch.is_grad_enabled():  # gradients that are to be differentiated in turn
            fixed = None if training else moments[:2]

            def again(x: Tensor, weight: Tensor, bias: Tensor, D: Tensor, *values: Tensor) -> Tensor:
                u = plain_batch_norm(x, weight, bias, eps, lengths, fixed, count_padding=count_padding)
                A_log_real, A_imag, log_dt, B, C, count = values
                system = SharedParameters(A_log_real, A_imag, B, C, log_dt, count, disc)
                return chunks.run(Work(system, u, D, None, lengths))[0]

            dx, *found = differentiable_gradients(again, (x, weight, bias, D, *parameters), dy.float())
            dx = dx if added is None or dx is None else dx + added
            return dx, *found[:2], None, None, *found[2:]
        norm = Norm(moments, lengths, dtype)
        with on_device_of(x), torch.autocast(x.device.type, enabled=False):
            around = None if added is None else rows(added)
            made, others = _adjoint(rows(dy), around, rows(x), u, D, norm, parameters, disc, saved, training)
        own = made.weight.to(weight.dtype), made.bias.to(bias.dtype)
        return made.x.permute(1, 2, 0), *own, None, None, made.D.to(D.dtype), *others, None


def _adjoint(
    dy: Tensor, added: Tensor | None, x: Tensor, u: Tensor | None, D: Tensor, norm: Norm, parameters: Parameters,
    disc: Any, saved: Saved, training: bool,
) -> tuple[Gradients, list[Tensor]]:  # fmt: skip
    """Gradients of norm and skip, and of the parameters but their weight; rows are ``(channel, batch, length)``."""
    tables, D = saved.tables, D.contiguous()
    dv, d_modes, dC, _ = adjoint(dy.permute(1, 2, 0), saved.states, tables, len(parameters.C))
    du = new_sequences(x, norm.dtype)
    product(dv, tables.B, out=du.flatten(0, 1))
    du, again = du.permute(2, 0, 1), u is None
    u = new_sequences(x, norm.dtype) if u is None else u
    sums = gradient_sums(du, dy, x, D, norm, u.permute(2, 0, 1) if again else None)
    # Of x itself, mean and deviation put right afterwards, it would lose the digits of the mean: tf32 has three.
    dB = sum_over_steps(dv.t(), u.flatten(0, 1).t())
    del dv, u
    made = gradients(du, dy, added, x, D, norm, sums, training=training)
    return made, discretize.gradients(parameters, disc, d_modes, dB, dC)
