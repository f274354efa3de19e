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
from wellposed.kernels.gpu.pieces import Tables, TableShape
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
    system, u = work.system, work.u
    assert isinstance(system, DiagonalParameters | DenseRecurrence)
    shape = _shape(work)
    if isinstance(system, DiagonalParameters):
        values = (system.A_log_real, system.A_imag, system.B, system.C, system.log_dt, work.D)
        tables = _Tables.apply(*values, system.weight, system.disc, shape)
    else:
        tables = plain_tables(system.discretize(), work.D, shape)
    start = work.state
    if start is not None:
        halves = isinstance(system, DiagonalParameters)
        start = to_padded(start.transpose(0, 1), 2, shape.state, halves=halves).contiguous()
    y = laid_out_like(_Convolution.apply(channels_first(u), start, dot_precision(u.dtype), *tables), u)
    if not work.want_state:
        return y, None
    return y, final_state(system.discretize(), u.float(), work.state, work.lengths)


def _shape(work: Work) -> TableShape:
    """Sizes to compile for. A chunk is a power of 2, 16 at least, which is what matrix units take."""
    batch, length, channels = work.u.shape
    chunk = 16
    while chunk < _CHUNK and chunk < length:
        chunk *= 2
    state = 32
    while state < _states(work.system):
        state *= 2
    directions = work.system.C.shape[0]
    _, jump = segments(batch, channels, directions, -(-length // chunk))
    return TableShape(chunk, state, jump)


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
        shape: TableShape,
    ) -> tuple[Tensor, ...]:
        tables, bars = make_tables(DiagonalParameters(A_log_real, A_imag, B, C, log_dt, weight, disc), D, shape)
        ctx.save_for_backward(A_log_real, A_imag, B, C, log_dt, D, weight, bars)
        ctx.disc, ctx.shape = disc, shape
        ctx.mark_non_differentiable(tables.jump)
        return tuple(tables)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        A_log_real, A_imag, B, C, log_dt, D, weight, bars = ctx.saved_tensors
        values = (A_log_real, A_imag, B, C, log_dt)
        system = DiagonalParameters(*values, weight, ctx.disc)
        if torch.is_grad_enabled():  # for derivatives of derivatives
            tables = plain_tables(system.discretize(), D, ctx.shape)
            return *_differentiated(tables[:4], gradients[:4], (*values, D)), None, None, None
        found = tables_backward(system, bars, ctx.shape, tuple(g.contiguous() for g in gradients[:4]))
        return *found[:5], None if D is None else found[5], None, None, None


class _Convolution(torch.autograd.Function):
    """``(channel, batch, length)`` to the same."""

    @staticmethod
    def forward(ctx: Any, u: Tensor, start: Tensor | None, precision: str, *tables: Tensor) -> Tensor:
        own = Tables(*tables)
        states = None
        if u.shape[2] > own.kernel.shape[2] or start is not None:
            states, _, _ = walk(u, own, start, precision=precision)
        ctx.save_for_backward(u, start, states, *tables)
        ctx.precision = precision
        return outputs(u, states, own, adjoint=False, precision=precision)

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        u, start, states, *saved = ctx.saved_tensors
        tables, precision = Tables(*saved), ctx.precision
        if torch.is_grad_enabled():  # for derivatives of derivatives
            values = (u, start, *tables[:4])
            du, end, *found = _differentiated((plain_convolution(*values),), (dy,), values)
            return du, end, None, *found, None
        dy = dy if dy.stride(2) == 1 else dy.contiguous()
        adjoints = partial = end = None
        if states is not None:
            adjoints, partial, end = walk(dy, tables, precision=precision, states=states, want_end=start is not None)
        du, *found = gradients(u, dy, states, adjoints, partial, tables, precision=precision)
        return du, end, None, *found, None


def _differentiated(results: tuple[Tensor, ...], gradients: tuple[Tensor, ...], values: tuple[Any, ...]) -> list[Any]:
    """Gradients of ``values`` by PyTorch's own rules, which can be differentiated again."""
    wanted = [k for k, value in enumerate(values) if value is not None and value.requires_grad]
    found = torch.autograd.grad(
        results, [values[k] for k in wanted], gradients, create_graph=True, allow_unused=True, materialize_grads=True
    )
    by_place = dict(zip(wanted, found, strict=True))
    return [by_place.get(k) for k in range(len(values))]
