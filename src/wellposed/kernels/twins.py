"""Functions with two bodies: plain operations that anything looks through, and fewer ones with a gradient by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from wellposed.kernels.device import exporting, transformed

Tensors = tuple[Tensor, ...]


class Twins(NamedTuple):
    """Compilers, exporters, transformations and gradients of gradients take ``plain``, all others the other two."""

    plain: Callable[..., Tensors]
    fast: Callable[..., tuple[Tensors, Tensors]]
    """Results, and what ``gradients`` is to find again."""
    gradients: Callable[[Tensors, Tensors, Tensors], Tensors]
    """Of the inputs, from inputs, what was kept, and the gradients of the results."""

    def __call__(self, *inputs: Tensor) -> Tensors:
        """The results."""
        looked_through = torch.compiler.is_compiling() or exporting() or transformed()
        if looked_through or inputs[0].is_mps:  # which lacks operations of complex numbers
            return self.plain(*inputs)
        return _Fast.apply(self, *inputs)


class _Fast(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, twins: Twins, *inputs: Tensor) -> Tensors:
        results, kept = twins.fast(*inputs)
        ctx.twins, ctx.count = twins, len(inputs)
        ctx.save_for_backward(*inputs, *kept)
        return results

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        inputs, kept = ctx.saved_tensors[: ctx.count], ctx.saved_tensors[ctx.count :]
        if not torch.is_grad_enabled():
            return None, *ctx.twins.gradients(inputs, kept, grads)
        needed = [t for t in inputs if t.requires_grad]
        results = ctx.twins.plain(*inputs)
        found = iter(torch.autograd.grad(results, needed, grads, create_graph=True, materialize_grads=True))
        return None, *(next(found) if t.requires_grad else None for t in inputs)
