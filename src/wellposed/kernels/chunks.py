"""The backend ``"scan"``: layers by way of chunks, in segments that fit a cache. docs/devdocs/layers.md"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from wellposed.kernels.device import exporting
from wellposed.kernels.diagonal import Spectrum
from wellposed.kernels.padding import align_right
from wellposed.kernels.recurrence import Recurrence
from wellposed.kernels.scan import scan, times
from wellposed.kernels.shared import SharedParameters, SharedRecurrence
from wellposed.kernels.tables import Tables, in_reverse, run_chunks
from wellposed.kernels.work import Inputs, Output, Sequences, Work, in_both_directions

_LARGEST_CHUNK = 64
_SEGMENT = 2**21  # numbers: 8 MB in float32, which allocators keep at hand and caches nearly hold


def supports(work: Work) -> bool:
    """Everything, everywhere: the backend that others fall back to."""
    return True


def run(work: Work) -> Output:
    """Outputs, and the last state where it is wanted."""
    if isinstance(work.system, SharedParameters):
        return run_shared(work, work.system.discretize(work.u.dtype), scan_states)
    return _run_channels(work)


def _run_channels(work: Work) -> Output:
    """One system a channel. On a CPU long batches go through in segments that fit a cache, laid out by channels."""
    assert not isinstance(work.system, SharedParameters)
    recurrence = work.system.discretize()
    chunk = chunk_length(work.u)
    inputs = recurrence.inputs
    tables = Tables.of(recurrence, chunk, _skip_of_first(work.D, inputs), work.u.dtype)

    def forward(u: Inputs, direction: int) -> Output:
        batch, channels = u.shape[0], u.shape[2] // inputs
        x = None if work.state is None or direction else work.state.transpose(0, 1)
        x = u.new_zeros(channels, batch, recurrence.states) if x is None else x
        outputs = []
        for part in u.split(max(chunk, segment(u, u.shape[2]) // chunk * chunk), 1):
            y, x = run_chunks(recurrence, tables[direction], _by_channel(part, inputs), x)
            outputs.append(permuted(y, (1, 2, 0)))
        return joined(outputs), x.transpose(0, 1)

    y, state = in_both_directions(work, recurrence.directions, forward)
    if work.want_state and work.lengths is not None:
        state = final_state(recurrence, work.u, work.state, work.lengths)
    return y, state if work.want_state else None


def _skip_of_first(D: Tensor | None, inputs: int) -> Tensor | None:
    """The skip of each channel's first input, none of the others."""
    return D if D is None or inputs == 1 else F.pad(D[:, None], (0, inputs - 1))[..., None]


def _by_channel(u: Inputs, inputs: int) -> Float[Tensor, "channel batch length_input"]:
    """Channels first; several inputs of one are neighbours in each step."""
    if inputs == 1:
        return permuted(u, (2, 0, 1))
    return permuted(u.unflatten(2, (inputs, -1)), (3, 0, 1, 2)).flatten(2)


def chunk_length(u: Inputs) -> int:
    """Steps a chunk: tables cost as many columns, products as many rows as there are chunks; 64 is enough.

    By comparisons alone, so that a compiler which keeps sizes open still sees a number; and one that compiles, whose
    code is to serve any batch, by the length alone.
    """
    batch, length, _ = u.shape
    chunk = 16
    while chunk < _LARGEST_CHUNK and (torch.compiler.is_compiling() or batch * length > 8 * chunk * chunk):
        chunk *= 2
    return chunk if length > chunk else int(length)


def segment(u: Inputs, numbers: int) -> int:
    """How many steps at a time go through a layer that holds so many numbers for each step of each sequence."""
    whole = u.is_cuda or torch.compiler.is_compiling()  # a GPU has no such cache, and compiled code no loop over it
    return u.shape[1] if whole else max(1, _SEGMENT // (len(u) * numbers))


def joined(parts: list[Tensor]) -> Tensor:
    """Pieces of ``(batch, length, ...)``, one after another."""
    return parts[0] if len(parts) == 1 else torch.cat(parts, 1)


def permuted(x: Tensor, order: tuple[int, ...]) -> Tensor:
    """``x.permute(order)``, written out: products of strided matrices would copy them each time, in backward too."""
    if exporting():
        return x.permute(order)
    return (_Permuted if torch.compiler.is_compiling() else _PermutedWithTangents).apply(x, order)


class _Permuted(torch.autograd.Function):
    @staticmethod
    def forward(x: Tensor, order: tuple[int, ...]) -> Tensor:
        if order == (1, 2, 0):  # as a matrix, whose transpose is written faster
            return x.flatten(1).t().contiguous().unflatten(0, x.shape[1:])
        return x.permute(order).contiguous()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.order = inputs[1]
        ctx.back = tuple(inputs[1].index(k) for k in range(len(inputs[1])))

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        return permuted(grad, ctx.back), None

    @staticmethod
    def vmap(info: Any, in_dims: Any, x: Tensor, order: tuple[int, ...]) -> tuple[Tensor, int]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """A mapped dimension stays in front."""
        return x.movedim(in_dims[0], 0).permute(0, *(k + 1 for k in order)), 0


class _PermutedWithTangents(_Permuted):
    """Forward-mode derivatives besides, which the compiler does not take."""

    @staticmethod
    def jvp(ctx: Any, x: Tensor, order: None) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        return permuted(x, ctx.order)


def final_state(
    recurrence: Recurrence,
    u: Inputs,
    state: Float[Tensor, "batch channel state"] | None,
    lengths: Int[Tensor, " batch"] | None,
) -> Float[Tensor, "batch channel state"]:
    """The state after each sequence's own last step, without its outputs.

    Every chunk is folded and weighed by the steps that follow it. Zeros in front of a shorter sequence change nothing.
    """
    (batch, length, width), inputs = u.shape, recurrence.inputs
    chunk, channels = chunk_length(u), width // inputs
    count = -(-length // chunk)
    aligned = align_right(u, lengths).unflatten(2, (inputs, channels)).permute(3, 0, 1, 2)
    chunks = F.pad(aligned, (0, 0, count * chunk - length, 0)).reshape(channels, batch * count, chunk * inputs)
    columns, _, carry = recurrence.chunk_tables(chunk)
    folded = (chunks @ in_reverse(columns.to(u.dtype), inputs).mT).unflatten(1, (batch, count))
    x = scan(folded, carry, u.new_zeros(channels, batch, recurrence.states))[:, :, -1]
    if state is not None and lengths is None:
        x = x + times(recurrence.every(length).transition.to(u.dtype), state.transpose(0, 1))
    elif state is not None and lengths is not None:
        x = x + recurrence.advance(state.transpose(0, 1), lengths, length)
    return x.transpose(0, 1)


def scan_states(modes: Spectrum, v: Sequences, x0: Float[Tensor, "batch state"]) -> Sequences:
    """Every state ``(batch, length, state)`` of ``x_t = lambda x_{t-1} + v_t``."""
    return scan(v[None], modes.transition, x0[None])[0]


def run_shared(
    work: Work, recurrence: SharedRecurrence, states_of: Callable[[Spectrum, Tensor, Tensor], Tensor]
) -> Output:
    """One system for all channels: inputs, states by ``states_of``, outputs, a segment at a time, and the skip."""
    last: list[Tensor] = []

    def forward(u: Sequences, direction: int) -> Output:
        size = recurrence.B.shape[1]
        x = u.new_zeros(len(u), size) if work.state is None or direction else work.state
        outputs, states = [], []
        for part in u.split(segment(u, max(u.shape[-1], size)), 1):
            states.append(states_of(recurrence.modes, part @ recurrence.B, x))
            outputs.append(states[-1] @ recurrence.C[direction].mT)
            x = states[-1][:, -1]
        if direction == 0 and work.want_state:
            last.append(x if work.lengths is None else _at(joined(states), work.lengths - 1))
        return joined(outputs), None

    y, _ = in_both_directions(work, recurrence.directions, forward)
    y = y if work.D is None else y + work.D * work.u
    return y, last[0] if last else None


def _at(states: Sequences, step: Int[Tensor, " batch"]) -> Float[Tensor, "batch state"]:
    return states[torch.arange(len(states), device=states.device), step]
