"""Whether kernels in Triton can take a piece of work, and how precisely they multiply."""

from __future__ import annotations

import importlib.util
import os
from functools import cache
from typing import Literal

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad

DotPrecision = Literal["tf32", "tf32x3", "bf16"]
_PLAIN = (Tensor, nn.Parameter, nn.Buffer)


def triton_takes(*tensors: Tensor) -> bool:
    """Whether kernels can take these now: not inside ``torch.func`` or an export, which look into operations."""
    return all(has_triton(t) for t in tensors) and not exporting() and not transformed()


def has_triton(tensor: Tensor) -> bool:
    """Whether Triton takes such tensors: on a GPU that has it, or on a CPU with ``TRITON_INTERPRET=1``.

    Plain ones: a tensor of a class of its own knows what may be done to it, a kernel does not.
    """
    return (
        type(tensor) in _PLAIN and tensor.dtype in (torch.float32, torch.bfloat16) and _device_has_triton(tensor.device)
    )


def lie_beside(u: Tensor, *tensors: Tensor) -> bool:
    """Whether these are plain tensors on the device of ``u``: a kernel is given addresses, and asks no questions."""
    return all(type(t) in _PLAIN and t.device == u.device for t in tensors)


def interpreted() -> bool:
    """Whether Triton runs its kernels on the CPU, one instruction after another."""
    return os.environ.get("TRITON_INTERPRET") == "1"


def _device_has_triton(device: torch.device) -> bool:
    return _look_for_triton(device)


# What torch.compiler.assume_constant_result does, without importing the compiler into every program.
_device_has_triton._dynamo_marked_constant = True  # pyright: ignore[reportFunctionMemberAccess]


@cache
def _look_for_triton(device: torch.device) -> bool:
    if device.type == "cpu":
        return interpreted() and importlib.util.find_spec("triton") is not None
    if device.type != "cuda" or torch.version.hip is not None or importlib.util.find_spec("triton") is None:
        return False
    # Tables stay in shared memory; datacentre cards have enough of it, from the first with tf32 and bf16 on.
    return torch.cuda.get_device_capability(device) >= (8, 0) and shared_memory(device) >= 160 * 1024


def shared_memory(device: torch.device) -> int:
    """Bytes that a program can hold in shared memory; where nothing is measured, enough."""
    if device.type != "cuda":
        return 2**20
    return getattr(torch.cuda.get_device_properties(device), "shared_memory_per_block_optin", 0)


def exporting() -> bool:
    """Whether this is recorded to be run elsewhere, by ``torch.export`` or ``torch.jit.trace``."""
    return _exporting()


def _exporting() -> bool:
    return torch.compiler.is_exporting() or torch._C._get_tracing_state() is not None


# Asked for real: PyTorch 2.11 compiles torch.compiler.is_exporting() into True, whatever it compiles for.
_exporting._dynamo_marked_constant = True  # pyright: ignore[reportFunctionMemberAccess]


def transformed() -> bool:
    """Inside ``torch.func``, or inside a level of forward-mode derivatives."""
    return _inside_func() or forward_ad._current_level >= 0


def _inside_func() -> bool:
    functions = torch._C._functorch  # pyright: ignore[reportAttributeAccessIssue]
    return functions.peek_interpreter_stack() is not None


# A compiler that looked inside would take any answer of that function for "not None", and leave the kernels. It asks
# again inside each transform that it runs through, and guards the transforms it was called in.
_inside_func._dynamo_marked_constant = True  # pyright: ignore[reportFunctionMemberAccess]


def matmul_switch() -> str:
    """What PyTorch's switch says of float32 products on a GPU, whichever of its two names it was set by.

    ``torch.get_float32_matmul_precision`` raises where it was the newer one, ``torch.backends``.
    """
    return str(torch.backends.cuda.matmul.fp32_precision)


def dot_precision(dtype: torch.dtype) -> DotPrecision:
    """How matrix units multiply: PyTorch's own switch decides for float32, bf16 stays what it is.

    "highest" is three products of tf32, which together are as exact as float32: docs/devdocs/gpu.md
    """
    if dtype == torch.bfloat16:
        return "bf16"
    return "tf32x3" if _highest() else "tf32"


def _highest() -> bool:
    return matmul_switch() != "tf32"


_highest._dynamo_marked_constant = True  # pyright: ignore[reportFunctionMemberAccess] -- which guards the switch itself
