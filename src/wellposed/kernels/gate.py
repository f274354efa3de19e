"""What follows a layer in a block: activation, dropout, a linear map and its gate, dropout, and the input added.

A pass is one reading or writing of all sequences. With the gate "full" the forward takes nine: activation 2, product
3, gate 4. The backward takes fifteen: gate 5, the two products 6, activation 4, made again there rather than kept. The
way around adds none: its gradient is the one that came. What could go is what lies between a product and its
neighbours, by products of one's own.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from wellposed.kernels.layout import Sequences, differentiable_gradients, rows
from wellposed.kernels.padding import zero_padding
from wellposed.kernels.products import product, sum_over_steps


class Gate(NamedTuple):
    """The options of ``ResidualBlock`` of these names; ``dropout`` is 0 outside of training."""

    activation: str
    glu: str
    dropout: float = 0.0
    tied_dropout: bool = True

    @property
    def mask(self) -> tuple[str, float]:
        """Which kind of mask, and its probability, as kernels take them."""
        return "none" if self.dropout == 0 else "tied" if self.tied_dropout else "untied", self.dropout

    @property
    def changes(self) -> bool:
        """Whether what enters the linear map is not the output of the layer itself."""
        return self.activation != "none" or self.dropout > 0


def activate_and_gate(
    y: Sequences,
    u: Sequences | None,
    weight: Float[Tensor, "out channel"] | None,
    bias: Float[Tensor, " out"] | None,
    gate: Gate,
    *,
    lengths: Int[Tensor, " batch"] | None,
    inner: torch.dtype,
    dtype: torch.dtype,
) -> Sequences:
    """The gates of ``ResidualBlock`` of an output ``y``, plus ``u``, zero in the padding, whatever ``u`` holds there.

    ``weight`` and ``bias`` are of the linear map, if the gate has one. What lies between the kernels is ``inner``.
    """
    # From PyTorch's own generator, on the device: its seed governs the masks, a graph replayed draws new ones, and
    # checkpointing, which sets it back, finds the same again.
    seeds = torch.randint(2**62, (2,), device=y.device) if gate.dropout else None
    return _ActivateAndGate.apply(y, u, weight, bias, seeds, lengths, gate, inner, dtype)


class _ActivateAndGate(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        y: Tensor,
        u: Tensor | None,
        weight: Tensor | None,
        bias: Tensor | None,
        seeds: Tensor | None,
        lengths: Tensor | None,
        gate: Gate,
        inner: torch.dtype,
        dtype: torch.dtype,
    ) -> Tensor:
        from wellposed.kernels.gpu import gate as gpu

        ctx.gate, ctx.residual = gate, u is not None
        given, y, added = y, rows(y), None if u is None else rows(u)
        x = z = None
        if weight is None or bias is None:
            out = gpu.activate(y, gate.activation, seeds, *gate.mask, added=added, lengths=lengths, dtype=dtype)
        else:
            x = y
            if gate.changes or y.dtype != inner:
                x = rows(gpu.activate(y, gate.activation, seeds, *gate.mask, dtype=inner))
            z = product(weight.to(inner), x.flatten(1))
            value = None if gate.glu == "full" else x if gate.glu == "half" else y
            out = gpu.gate(z, bias, value, added, seeds, *gate.mask, lengths=lengths, like=y, dtype=dtype)
        # What the linear map took is made again in backward, from y: it need not wait in memory.
        ctx.save_for_backward(given, None if gate.changes else x, z, weight, bias, seeds, lengths)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        grads = (_differentiable if torch.is_grad_enabled() else _gradients)(ctx, grad)
        return *grads, *[None] * 5


def _gradients(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    """Of ``y``, ``u``, weight and bias."""
    from wellposed.kernels.gpu import gate as gpu

    y, x, z, weight, bias, seeds, lengths = ctx.saved_tensors
    gate: Gate = ctx.gate
    y, g = rows(y), rows(grad)
    du = g.permute(1, 2, 0) if ctx.residual else None
    if z is None:
        dy = gpu.activate_backward(g, y, gate.activation, seeds, *gate.mask, lengths=lengths)
        return dy.permute(1, 2, 0), du, None, None
    value = None if gate.glu == "full" else y
    how: Any = {"lengths": lengths, "activation": gate.activation if gate.glu == "half" else None}
    dz, dvalue, dbias = gpu.gate_backward(g, z, bias, value, seeds, *gate.mask, **how)
    back = weight.to(dz.dtype).T
    if gate.glu == "half":  # both ways to x meet in the product
        assert dvalue is not None
        dx, dvalue = product(back, dz, out=dvalue.flatten(1), add=True).view_as(y), None
    else:
        dx = product(back, dz).view_as(y)
    dy = dx
    if gate.changes or dvalue is not None or dx.dtype != y.dtype:
        again = torch.empty_like(dx) if x is None else None
        dy = gpu.activate_backward(dx, y, gate.activation, seeds, *gate.mask, added=dvalue, again=again)
        x = again if x is None else x
    assert x is not None
    dweight = sum_over_steps(dz, x.flatten(1)).to(weight.dtype) if ctx.needs_input_grad[2] else None
    return dy.permute(1, 2, 0), du, dweight, dbias.to(bias.dtype)


def _differentiable(ctx: Any, grad: Tensor) -> list[Tensor | None]:
    """The same by plain operations."""
    y, _, _, weight, bias, seeds, lengths = ctx.saved_tensors
    gate: Gate = ctx.gate
    first, second = _masks(y, seeds, gate)
    grad = zero_padding(grad, lengths)

    def plain(y: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
        x = {"gelu": F.gelu, "gelu_tanh": _gelu_tanh, "none": lambda t: t}[gate.activation](y) * first
        if weight is None or bias is None:
            return x
        z = F.linear(x, weight.to(x.dtype), bias.to(x.dtype))
        if gate.glu == "full":
            return F.glu(z, -1) * second
        return (x if gate.glu == "half" else y) * z.sigmoid() * second

    dy, dweight, dbias = differentiable_gradients(plain, (y, weight, bias), grad.to(y.dtype))
    return [dy, grad if ctx.residual else None, dweight, dbias]


def _gelu_tanh(y: Tensor) -> Tensor:
    return F.gelu(y, approximate="tanh")


def _masks(y: Tensor, seeds: Tensor | None, gate: Gate) -> tuple[Tensor, Tensor]:
    """Those of both dropouts, as factors."""
    from wellposed.kernels.gpu import gate as gpu

    ones = torch.ones_like(rows(y.detach()))
    if seeds is None:
        return ones.permute(1, 2, 0), ones.permute(1, 2, 0)
    first, second = (gpu.activate(ones, "none", s, *gate.mask, dtype=y.dtype) for s in (seeds, seeds[1:]))
    return first, second
