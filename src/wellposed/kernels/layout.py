"""Whether sequences go through kernels in Triton, and how they lie in memory there: channels first.

That is a tensor of shape ``(batch, length, channel)`` whose memory is a contiguous ``(channel, batch, length)`` array.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from wellposed.kernels.device import triton_takes

Sequences = Float[Tensor, "batch length channel"]
_PLAIN = (Tensor, nn.Parameter)
_DTYPES = (torch.float32, torch.bfloat16)

FASTEST_ON = ("cuda",)
"""Kinds of device where kernels go before plain operations. Tests add the CPU, where Triton's interpreter runs them."""
MOST_CHANNELS = 2048
"""Layer norm holds all channels of a step at once."""
MOST_STEPS = 2**30
"""In a batch: steps are counted in 32 bits."""


def kernels_take(u: Sequences, *others: Tensor | None) -> bool:
    """Whether what stands around a layer can be done by kernels in Triton, with these parameters.

    Compilers fuse plain operations themselves, and tensors of a class of their own know what may be done to them.
    """
    device = u.device
    if device.type not in FASTEST_ON or torch.compiler.is_compiling():
        return False
    for t in (u, *others):  # asked many times a step: a loop, where every call would cost as much again
        if t is not None and (type(t) not in _PLAIN or t.dtype not in _DTYPES or t.device != device):
            return False
    batch, length, channels = u.shape
    fits = 0 < batch * length < MOST_STEPS and 0 < channels <= MOST_CHANNELS
    return fits and inner_dtype(u) in _DTYPES and triton_takes(u)


def inner_dtype(u: Tensor) -> torch.dtype:
    """In which precision a block keeps what it computes besides the sum of all blocks: autocast's, or its own."""
    kind = u.device.type
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else u.dtype


def is_channels_first(x: Sequences) -> bool:
    """Whether the memory is a contiguous ``(channel, batch, length)`` array."""
    batch, length, _ = x.shape
    # Strides of sizes of 1 mean nothing, which PyTorch knows; it takes a tensor of its own to ask.
    return x.stride() == (length, 1, batch * length) or x.permute(2, 0, 1).is_contiguous()


def to_channels_first(x: Sequences) -> Sequences:
    """The same numbers, channels first; what is so already is handed back."""
    if is_channels_first(x):
        return x
    if not kernels_take(x):
        return x.permute(2, 0, 1).contiguous().permute(1, 2, 0)
    from wellposed.kernels.gpu import transpose

    return transpose.to_channels_first(x)


def to_channels_last(x: Sequences) -> Sequences:
    """The same numbers in a contiguous ``(batch, length, channel)`` array; what is so already is handed back."""
    if x.is_contiguous() or not kernels_take(x):
        return x.contiguous()
    from wellposed.kernels.gpu import transpose

    return transpose.to_channels_last(x)


def rows(x: Sequences) -> Float[Tensor, "channel batch length"]:
    """The array itself, of sequences or a gradient of them, brought into this layout if need be."""
    return to_channels_first(x).permute(2, 0, 1)


def differentiable_gradients(
    function: Callable[..., Any], inputs: Sequence[Tensor | None], grads: Any
) -> list[Tensor | None]:
    """Gradients of a function of plain operations, which can be differentiated once more."""
    with torch.enable_grad():
        # Views, so that an input that was computed from another one does not hand its gradient on to it here.
        views = [None if t is None else t.view_as(t) for t in inputs]
        out = function(*views)
        wanted = [t for t in views if t is not None and t.requires_grad]
        found = iter(torch.autograd.grad(out, wanted, grads, create_graph=True, allow_unused=True))
    return [next(found) if t is not None and t.requires_grad else None for t in views]
