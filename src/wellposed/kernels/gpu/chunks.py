"""Systems of one input and one output a channel, on a GPU: tables, and sequences through them. docs/devdocs/gpu.md"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from wellposed.kernels.chunks import final_state
from wellposed.kernels.dense import DenseRecurrence
from wellposed.kernels.device import dot_precision
from wellposed.kernels.diagonal import DiagonalParameters
from wellposed.kernels.gpu.outputs import gradients, outputs
from wellposed.kernels.gpu.pieces import Sizes
from wellposed.kernels.gpu.plain import plain_convolution, plain_tables, to_padded
from wellposed.kernels.gpu.states import segments, walk
from wellposed.kernels.gpu.tables import make_tables, tables_backward
from wellposed.kernels.gpu.transpose import channels_first, laid_out_like
from wellposed.kernels.work import Output, Work

LARGEST_STATE = 128
"""Real numbers: with more the tables of a channel no longer fit a multiprocessor."""
_CHUNK = 64


def supports(work: Work) -> bool:
    """States of up to 128 real numbers a channel."""
    return _states(work.system) <= LARGEST_STATE


def _states(system: Any) -> int:
    return 2 * system.A_imag.shape[-1] if isinstance(system, DiagonalParameters) else system.states


def run(work: Work) -> Output:
    """Outputs, and the last state where it is wanted."""
    system, u, sizes = work.system, work.u, _sizes(work)
    assert isinstance(system, DiagonalParameters | DenseRecurrence)
    if isinstance(system, DiagonalParameters):
        values = (system.A_log_real, system.A_imag, system.B, system.C, system.log_dt, work.D)
        tables = _Tables.apply(*values, system.weight, system.disc, sizes)
    else:
        tables = plain_tables(system.discretize(), work.D, sizes)
    start = None
    if work.state is not None:
        start = to_padded(work.state.transpose(0, 1), 2, sizes).contiguous()
    y = laid_out_like(_Convolution.apply(channels_first(u), start, tables, sizes, dot_precision(u.dtype)), u)
    if not work.want_state:
        return y, None
    return y, final_state(system.discretize(), u.float(), work.state, work.lengths)


def _sizes(work: Work) -> Sizes:
    """A chunk and a state are powers of 2, 16 at least for each half, which is what matrix units take."""
    batch, length, channels = work.u.shape
    chunk = 16
    while chunk < _CHUNK and chunk < length:
        chunk *= 2
    state = 32
    while state < _states(work.system):
        state *= 2
    directions = work.system.C.shape[0]
    count, jump = segments(batch, channels, directions, -(-length // chunk))
    return Sizes(
        directions, channels, chunk, state, jump if count > 1 else 0, not isinstance(work.system, DiagonalParameters)
    )


class _Tables(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        A_log_real: Tensor,
        A_imag: Tensor,
        B: Tensor,
        C: Tensor,
        log_dt: Tensor,
        D: Tensor | None,
        weight: Tensor,
        disc: Any,
        sizes: Sizes,
    ) -> Tensor:
        tables, bars = make_tables(DiagonalParameters(A_log_real, A_imag, B, C, log_dt, weight, disc), D, sizes)
        ctx.save_for_backward(A_log_real, A_imag, B, C, log_dt, D, weight, bars)
        ctx.disc, ctx.sizes = disc, sizes
        return tables

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        A_log_real, A_imag, B, C, log_dt, D, weight, bars = ctx.saved_tensors
        values = (A_log_real, A_imag, B, C, log_dt)
        system = DiagonalParameters(*values, weight, ctx.disc)
        if torch.is_grad_enabled():  # for derivatives of derivatives
            tables = plain_tables(system.discretize(), D, ctx.sizes)
            return *_differentiated(tables, gradient, (*values, D)), None, None, None
        return *tables_backward(system, D, bars, ctx.sizes, gradient), None, None, None


class _Convolution(torch.autograd.Function):
    """``(channel, batch, length)`` to the same."""

    @staticmethod
    def forward(ctx: Any, u: Tensor, start: Tensor | None, tables: Tensor, sizes: Sizes, precision: str) -> Tensor:
        states = None
        if u.shape[2] > sizes.steps or start is not None:
            states, _, _ = walk(u, tables, sizes, start, precision=precision)
        ctx.save_for_backward(u, start, states, tables)
        ctx.sizes, ctx.precision = sizes, precision
        return outputs(u, states, tables, sizes, adjoint=False, precision=precision)

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        (u, start, states, tables), sizes, precision = ctx.saved_tensors, ctx.sizes, ctx.precision
        if torch.is_grad_enabled():  # for derivatives of derivatives
            values = (u, start, tables)
            return *_differentiated(plain_convolution(*values, sizes), dy, values), None, None
        dy = dy if dy.stride(2) == 1 else dy.contiguous()
        adjoints = partial = end = None
        if states is not None:
            more = {"states": states, "want_end": start is not None}
            adjoints, partial, end = walk(dy, tables, sizes, precision=precision, **more)
        du, found = gradients(u, dy, states, adjoints, partial, tables, sizes, precision=precision)
        return du, end, found, None, None


def _differentiated(result: Tensor, gradient: Tensor, values: tuple[Any, ...]) -> list[Any]:
    """Gradients of ``values`` by PyTorch's own rules, which can be differentiated again."""
    wanted = [k for k, value in enumerate(values) if value is not None and value.requires_grad]
    found = torch.autograd.grad(
        result, [values[k] for k in wanted], gradient, create_graph=True, allow_unused=True, materialize_grads=True
    )
    by_place = dict(zip(wanted, found, strict=True))
    return [by_place.get(k) for k in range(len(values))]
