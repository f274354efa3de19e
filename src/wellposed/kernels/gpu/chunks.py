"""Systems of one input and one output a channel, on a GPU: tables, and sequences through them. docs/devdocs/gpu.md"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from wellposed.kernels.chunks import final_state
from wellposed.kernels.device import dot_precision, shared_memory
from wellposed.kernels.diagonal import DiagonalParameters
from wellposed.kernels.gpu import makers
from wellposed.kernels.gpu.gradients import gradients
from wellposed.kernels.gpu.launches import on_device_of
from wellposed.kernels.gpu.makers import MAKERS
from wellposed.kernels.gpu.outputs import outputs
from wellposed.kernels.gpu.pieces import Norm, Sizes
from wellposed.kernels.gpu.plain import plain_convolution, to_padded
from wellposed.kernels.gpu.states import chunks_in_segment, walk
from wellposed.kernels.gpu.tiles import new_sequences
from wellposed.kernels.gpu.transpose import laid_first, laid_last, to_channels_first, to_channels_last
from wellposed.kernels.layout import differentiable_gradients
from wellposed.kernels.shared import SharedParameters
from wellposed.kernels.work import Output, Work

LARGEST_DIAGONAL, LARGEST_DENSE = 128, 64
"""Real numbers in a state: with more the tables of a channel no longer fit a multiprocessor."""
_CHUNK = 64


def supports(work: Work) -> bool:
    """One input a channel, states of up to 128 real numbers, or 64 if its matrix is dense."""
    if isinstance(work.system, SharedParameters) or _inputs(work) > 1:
        return False
    if not isinstance(work.system, DiagonalParameters):
        return _states(work) <= LARGEST_DENSE
    # Tables of both directions in three passes need more than an A100 has.
    tight = work.system.C.shape[0] == 2 and shared_memory(work.u.device) < 200 * 1024
    return _states(work) <= (LARGEST_DIAGONAL // 2 if tight else LARGEST_DIAGONAL)


def _inputs(work: Work) -> int:
    return getattr(work.system, "inputs", 1)


def _states(work: Work) -> int:
    system: Any = work.system
    return 2 * system.A_imag.shape[-1] if isinstance(system, DiagonalParameters) else system.states


def run(work: Work) -> Output:
    """Outputs, and the last state where it is wanted."""
    u, sizes = work.u, sizes_of(work)
    start = None
    if work.state is not None:
        start = to_padded(work.state.transpose(0, 1), 2, sizes).contiguous()
    kind, values = makers.of(work, sizes)
    how = (start, sizes, kind, dot_precision(u.dtype), *values)
    if torch.compiler.is_compiling() and u.stride(1) != 1:  # which fuses a change of layout with what it meets
        y = to_channels_last(_Chunks.apply(to_channels_first(u), *how)[0])
    else:
        y = _Chunks.apply(u, *how)[0]
    if not work.want_state:
        return y, None
    system: Any = work.system
    return y, final_state(system.discretize(), u.float(), work.state, work.lengths)


def sizes_of(work: Work) -> Sizes:
    """A chunk and a state are powers of 2, 16 at least for each half, which is what matrix units take."""
    batch, length, channels = work.u.shape
    chunk, state = 16, 32
    while chunk < _CHUNK and chunk < length:
        chunk *= 2
    while state < _states(work):
        state *= 2
    directions, dense = work.system.C.shape[0], not isinstance(work.system, DiagonalParameters)
    jump = chunks_in_segment(batch, channels, directions, -(-length // chunk))
    return Sizes(directions, channels, chunk, state, jump, dense)


class _Chunks(torch.autograd.Function):
    """One node of autograd for all of it, changes of layout too: each costs a host as much as a kernel.

    It also gives the input as it lies for the kernels, where that is another tensor: kept for backward as an output, it
    is known to whoever differentiates once more.
    """

    @staticmethod
    def forward(
        ctx: Any, u: Tensor, start: Tensor | None, sizes: Sizes, kind: str, precision: str, *values: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        ctx.moved = u.stride(1) != 1
        u = laid_first(u) if ctx.moved else u
        # The first call of an operator of one's own loads the compiler, which takes seconds.
        compute = _opaque_forward if torch.compiler.is_compiling() else _forward
        y, states, tables, *kept = compute(u, start, values, sizes, kind, precision)
        ctx.save_for_backward(u, start, states, tables, *kept, *values)
        ctx.set_materialize_grads(False)
        ctx.rest = sizes, kind, precision, len(kept)
        return (laid_last(y), u) if ctx.moved else (y, None)

    @staticmethod
    def backward(ctx: Any, dy: Tensor | None, added: Tensor | None) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        (u, start, states, tables, *others), (sizes, kind, precision, count) = ctx.saved_tensors, ctx.rest
        kept, values = others[:count], others[count:]
        if dy is None:
            return added, *[None] * (4 + len(values))
        compiling = torch.compiler.is_compiling()
        if torch.is_grad_enabled() and not compiling:  # gradients that are to be differentiated in turn

            def again(u: Tensor, start: Tensor | None, *values: Any) -> Tensor:
                rows = u.permute(2, 0, 1).float()
                y = plain_convolution(rows, start, MAKERS[kind].plain(values, sizes), sizes)
                return y.permute(1, 2, 0).to(u.dtype)

            du, end, *found = differentiable_gradients(again, (u, start, *values), dy)
        else:
            compute = _opaque_backward if compiling else _backward
            du, end, *found = compute(dy, u, start, states, tables, kept, values, sizes, kind, precision)
            du = laid_last(du) if ctx.moved else du
            found = [None if value is None else grad for grad, value in zip(found, values, strict=True)]
        du = du if added is None or du is None else du + added
        return du, None if start is None else end, None, None, None, *found


def _forward(
    u: Tensor, start: Tensor | None, values: Sequence[Tensor | None], sizes: Any, kind: str, precision: str
) -> list[Tensor]:
    """Outputs, states before every chunk (none for a single one), tables, and what their maker keeps."""
    u = u if u.stride(1) == 1 else laid_first(u)  # a compiler may choose another layout for its own
    sizes, U = Sizes(*sizes), u.permute(2, 0, 1)
    with on_device_of(u):
        tables, *kept = MAKERS[kind].make(values, sizes)
        states = states_of(U, start, tables, sizes, precision)
        y = new_sequences(U, u.dtype)
        outputs(U, states, tables, sizes, y.permute(2, 0, 1), precision=precision)
    return [y, states, tables, *kept]


def states_of(
    u: Tensor, start: Tensor | None, tables: Tensor, sizes: Sizes, precision: str, norm: Norm | None = None
) -> Tensor:
    """Before every chunk; a single one that starts from zero needs none."""
    if u.shape[2] <= sizes.steps and start is None:
        return torch.empty(0, dtype=u.dtype if norm is None else norm.dtype, device=u.device)
    return walk(u, tables, sizes, start, precision=precision, norm=norm)[0]


def _backward(
    dy: Tensor,
    u: Tensor,
    start: Tensor | None,
    states: Tensor,
    tables: Tensor,
    kept: Sequence[Tensor],
    values: Sequence[Tensor | None],
    sizes: Any,
    kind: str,
    precision: str,
) -> list[Tensor]:
    """Gradients of ``u, start`` and of the values, empty for what is not there."""
    # Whoever keeps tensors for us (on the host, say) may give them back in another layout.
    u, dy = (x if x.stride(1) == 1 else laid_first(x) for x in (u, dy))
    sizes, U, G = Sizes(*sizes), u.permute(2, 0, 1), dy.permute(2, 0, 1)
    with on_device_of(u):
        adjoints, partial, end = states, None, None
        if states.numel():
            more = {"states": states, "want_end": start is not None}
            adjoints, partial, end = walk(G, tables, sizes, precision=precision, **more)
        du = new_sequences(U, u.dtype)
        found, _ = gradients(U, G, states, adjoints, partial, tables, sizes, du.permute(2, 0, 1), precision=precision)
        others = MAKERS[kind].gradients(values, kept, sizes, found)
    return [du, *(_there(g, of) for g, of in zip((end, *others), (start, *values), strict=True))]


def _there(gradient: Tensor | None, of: Tensor | None) -> Tensor:
    """An operator returns tensors: nothing for what is not there, anything for what has no gradient."""
    if gradient is not None:
        return gradient
    return torch.empty(0) if of is None else of.new_empty(of.shape)


_opaque_forward = torch.library.custom_op(
    "wellposed::chunks",
    _forward,
    mutates_args=(),
    schema="(Tensor u, Tensor? start, Tensor?[] values, int[] sizes, str kind, str precision) -> Tensor[]",
)
_opaque_backward = torch.library.custom_op(
    "wellposed::chunks_backward",
    _backward,
    mutates_args=(),
    schema="(Tensor dy, Tensor u, Tensor? start, Tensor states, Tensor tables, Tensor[] kept, Tensor?[] values, "
    "int[] sizes, str kind, str precision) -> Tensor[]",
)


@_opaque_forward.register_fake
def _(u: Tensor, start: Any, values: Any, sizes: Any, kind: str, precision: str) -> list[Tensor]:
    sizes, (batch, length, channels) = Sizes(*sizes), u.shape
    states = u.new_empty(0)
    if length > sizes.steps or start is not None:
        states = u.new_empty(sizes.directions, channels, batch, -(-length // sizes.steps), sizes.state)
    tables = u.new_empty(sizes.total, dtype=torch.float32)
    return [new_sequences(u.permute(2, 0, 1), u.dtype), states, tables, *MAKERS[kind].kept_like(values, sizes)]


@_opaque_backward.register_fake
def _(dy: Tensor, u: Tensor, start: Any, states: Any, tables: Any, kept: Any, values: Any, *rest: Any) -> list[Tensor]:
    given = (torch.empty(0) if t is None else t.new_empty(t.shape) for t in (start, *values))
    return [new_sequences(u.permute(2, 0, 1), u.dtype), *given]
