"""Where numbers stopped being finite: the batch is run again with an ear at every module."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from wellposed.data import Batch, PairBatch
from wellposed.train._objective import Objective


def first_not_finite(model: nn.Module, batch: Batch | PairBatch, objective: Objective) -> str:
    """The first module whose output is not finite, else the first parameter whose gradient is not, in words."""
    inputs = [value for value in batch if isinstance(value, Tensor)]
    if any(_odd(value) for value in inputs):
        return "the data of this batch"
    found: list[str] = []
    hooks = []
    for name, module in model.named_modules():
        if odd := [key for key, p in module.named_parameters(recurse=False) if _odd(p)]:
            return f"the parameter {f'{name}.{odd[0]}' if name else odd[0]}"
        hooks.append(module.register_forward_hook(_forward(found, name, module)))
    try:
        out = batch.through(model)
        loss = objective.loss(out, batch.y)
        if not found and _odd(loss):
            found.append("the loss")
        model.zero_grad(set_to_none=True)
        loss.backward()
    finally:
        for hook in hooks:
            hook.remove()
    if not found:
        # Backwards the last module comes first.
        for name, parameter in reversed(list(model.named_parameters())):
            if parameter.grad is not None and _odd(parameter.grad):
                found.append(f"the gradient of {name}")
                break
    model.zero_grad(set_to_none=True)
    return found[0] if found else "nothing when the batch was run again, so that a draw of dropout may have been it"


def _forward(found: list[str], name: str, module: nn.Module) -> Callable[..., None]:
    def look(_: nn.Module, __: Any, out: Any) -> None:
        tensors = out if isinstance(out, tuple) else (out,)
        if not found and any(isinstance(t, Tensor) and _odd(t) for t in tensors):
            found.append(f"the output of {name or 'the model'} ({type(module).__name__})")

    return look


def _odd(tensor: Tensor) -> bool:
    return tensor.is_floating_point() and not bool(torch.isfinite(tensor).all())
