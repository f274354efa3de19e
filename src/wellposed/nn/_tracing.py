"""What may be asked of a tensor while PyTorch traces, maps or differentiates a call."""

from __future__ import annotations

import torch
from torch import Tensor


def readable(tensor: Tensor) -> bool:
    """Whether its values can be looked at here, to check them.

    On a GPU that waits until they are computed, which a CUDA graph under capture cannot.
    """
    functorch = torch._C._functorch  # pyright: ignore[reportAttributeAccessIssue]
    if torch.compiler.is_compiling() or (tensor.is_cuda and torch.cuda.is_current_stream_capturing()):
        return False
    while functorch.is_functorch_wrapped_tensor(tensor):  # a gradient may be taken inside a map
        if functorch.is_batchedtensor(tensor):
            return False
        tensor = functorch.get_unwrapped(tensor)
    return True


def inside_transform() -> bool:
    """Whether torch.func maps over or differentiates this call."""
    level = torch._C._functorch.maybe_current_level  # pyright: ignore[reportAttributeAccessIssue]
    return not torch.compiler.is_compiling() and level() is not None
