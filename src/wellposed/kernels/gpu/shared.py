"""One system for all channels in Triton: what the dispatch asks, the derivative rule, and operators for compilers."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from wellposed.kernels import chunks
from wellposed.kernels.device import has_triton
from wellposed.kernels.discretize import Discretisation
from wellposed.kernels.gpu.discretize import Parameters
from wellposed.kernels.gpu.launches import on_device_of
from wellposed.kernels.gpu.shared_passes import Saved, backward, empty_like, forward
from wellposed.kernels.shared import SharedParameters
from wellposed.kernels.work import Output, Work


def supports(work: Work) -> bool:
    """Sequences in float32 or bfloat16, that are not empty, through a system whose weights are given."""
    if not isinstance(work.system, SharedParameters):
        return False
    if work.state is not None and not has_triton(work.state):
        return False
    return work.u.numel() > 0 and work.system.A_imag.numel() > 0 and not work.system.weight.requires_grad


def run(work: Work) -> Output:
    """Outputs, and the last state where it is wanted, in float32."""
    assert isinstance(work.system, SharedParameters)
    parameters, disc = parameters_of(work.system), work.system.disc
    D = None if work.D is None else work.D.float()
    y, last = _Shared.apply(work.u, D, work.state, work.lengths, disc, work.want_state, *parameters)
    return y, last if work.want_state else None


def parameters_of(system: SharedParameters) -> Parameters:
    """Its tensors, in the order of the kernels, in float32."""
    s = system
    return Parameters(*(t.float() for t in (s.A_log_real, s.A_imag, s.log_dt, s.B, s.C, s.weight)))


class _Shared(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        u: Tensor,
        D: Tensor | None,
        state: Tensor | None,
        lengths: Tensor | None,
        disc: Discretisation,
        want_state: bool,
        *parameters: Tensor,
    ) -> tuple[Tensor, Tensor]:
        # The first call of an operator of one's own loads the compiler, which takes seconds.
        compute = _opaque_forward if torch.compiler.is_compiling() else _plain_forward
        y, last, *saved = compute(u, D, state, lengths, list(parameters), disc, want_state)
        ctx.save_for_backward(u, D, state, lengths, *parameters, *saved)
        ctx.disc, ctx.want_state = disc, want_state
        ctx.set_materialize_grads(False)
        return y, last

    @staticmethod
    def backward(ctx: Any, dy: Tensor | None, d_last: Tensor | None) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        u, D, state, lengths, *rest = ctx.saved_tensors
        parameters, saved = rest[:6], rest[6:]
        d_last = d_last if ctx.want_state else None
        dy = torch.zeros_like(u) if dy is None else dy
        compiling = torch.compiler.is_compiling()
        if torch.is_grad_enabled() and not compiling:  # gradients that are to be differentiated in turn
            inputs = (u, D, state, *parameters)
            return _differentiable(inputs, lengths, ctx.disc, ctx.want_state, (dy, d_last))
        compute = _opaque_backward if compiling else _plain_backward
        du, dD, d_state, *others = compute(dy, d_last, u, D, state, lengths, parameters, saved, ctx.disc)
        given = None if D is None else dD, None if state is None else d_state
        return du, *given, None, None, None, *others, None


def _differentiable(
    inputs: tuple[Tensor | None, ...],
    lengths: Tensor | None,
    disc: Discretisation,
    want_state: bool,
    grads: tuple[Tensor, Tensor | None],
) -> tuple[Tensor | None, ...]:
    """The gradients by plain operations, of which PyTorch knows the derivatives."""
    # Views of their own: one input may depend on another, and is not to be counted twice.
    u, D, state, *parameters = (None if t is None else t.view_as(t) for t in inputs)
    A_log_real, A_imag, log_dt, B, C, weight = parameters
    system: Any = SharedParameters(A_log_real, A_imag, B, C, log_dt, weight, disc)  # pyright: ignore[reportArgumentType]
    assert u is not None
    y, last = chunks.run(Work(system, u.float(), D, state, lengths, want_state))
    outputs, weights = [y.to(u.dtype)], [grads[0]]
    if last is not None and grads[1] is not None:
        outputs, weights = [*outputs, last], [*weights, grads[1]]
    wanted = [t for t in (u, D, state, *parameters) if t is not None and t.requires_grad]
    found = torch.autograd.grad(outputs, wanted, weights, create_graph=True, allow_unused=True)
    by_input = {id(t): g for t, g in zip(wanted, found, strict=True)}
    du, dD, d_state, *others = (by_input.get(id(t)) for t in (u, D, state, *parameters))
    return du, dD, d_state, None, None, None, *others


def _plain_forward(
    u: Tensor,
    D: Tensor | None,
    state: Tensor | None,
    lengths: Tensor | None,
    parameters: list[Tensor],
    disc: Any,
    want_state: bool,
) -> list[Tensor]:
    """Outputs, last state, and what is saved, in one list."""
    with on_device_of(u), torch.autocast(u.device.type, enabled=False):  # operands have their precision already
        y, last, saved = forward(u, D, state, lengths, Parameters(*parameters), disc, want_state)
    return [y, last, *saved]


def _plain_backward(
    dy: Tensor,
    d_last: Tensor | None,
    u: Tensor,
    D: Tensor | None,
    state: Tensor | None,
    lengths: Tensor | None,
    parameters: list[Tensor],
    saved: list[Tensor],
    disc: Any,
) -> list[Tensor]:
    with on_device_of(u), torch.autocast(u.device.type, enabled=False):
        return backward(dy, d_last, u, D, state, lengths, Parameters(*parameters), disc, Saved(*saved))


_INPUTS = "Tensor u, Tensor? D, Tensor? state, Tensor? lengths, Tensor[] parameters"
_opaque_forward = torch.library.custom_op(
    "wellposed::shared_system",
    _plain_forward,
    mutates_args=(),
    schema=f"({_INPUTS}, str disc, bool want_state) -> Tensor[]",
)
_opaque_backward = torch.library.custom_op(
    "wellposed::shared_system_backward",
    _plain_backward,
    mutates_args=(),
    schema=f"(Tensor dy, Tensor? d_last, {_INPUTS}, Tensor[] saved, str disc) -> Tensor[]",
)


@_opaque_forward.register_fake
def _(
    u: Tensor,
    D: Tensor | None,
    state: Tensor | None,
    lengths: Tensor | None,
    parameters: list[Tensor],
    disc: str,
    want_state: bool,
) -> list[Tensor]:
    (batch, length, H), (directions, _, P, _) = u.shape, parameters[4].shape
    one = u.new_empty(2, P, dtype=torch.float32)
    states = u.new_empty(batch, length, directions * 2 * P)
    last = u.new_empty(batch if want_state else 0, 2 * P, dtype=torch.float32)
    tables = u.new_empty(2 * P, H), u.new_empty(H, directions * 2 * P)
    return [empty_like(u), last, states, one, one.new_empty(2, P, dtype=torch.float64), *tables]


@_opaque_backward.register_fake
def _(
    dy: Tensor,
    d_last: Tensor | None,
    u: Tensor,
    D: Tensor | None,
    state: Tensor | None,
    lengths: Tensor | None,
    parameters: list[Tensor],
    saved: list[Tensor],
    disc: str,
) -> list[Tensor]:
    given = [u.new_empty(0, dtype=torch.float32) if t is None else t.new_empty(t.shape) for t in (D, state)]
    return [empty_like(u), *given, *(t.new_empty(t.shape) for t in parameters[:-1])]
