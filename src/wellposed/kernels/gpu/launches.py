"""One way to start a kernel, which keeps what Triton would find out anew at every launch.

That is which of its compiled variants fits the arguments: binding them, looking at each and making a key of it takes
Triton longer than most kernels run. Here the key is made of what it looks at, or of more: kinds of tensors and how far
their addresses are from a multiple of 16, whole numbers themselves, and all that is compiled for. Then the variant is
started as Triton starts it. docs/devdocs/gpu.md
"""

from __future__ import annotations

import inspect
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter
from triton import knobs
from triton.compiler import CompiledKernel
from triton.runtime.errors import OutOfResources
from triton.runtime.jit import JITFunction

from wellposed.kernels.device import interpreted

MOST = 8192
"""Variants remembered; with more, as when every batch has another length, all are forgotten."""
_STAGES = ("STAGES", "num_stages")
_CALL = """kernel.run(grid_0, grid_1, grid_2, stream, kernel.function, kernel.packed_metadata, launch_metadata,
knobs.runtime.launch_enter_hook, knobs.runtime.launch_exit_hook, *bound_args.values())"""

_known: dict[tuple[Any, ...], tuple[Any, Any, Any, tuple[Any, ...]]] = {}
_fewer_stages: dict[tuple[Any, ...], dict[str, int]] = {}
_runtime: Any = knobs.runtime
_current_device: Any = getattr(torch._C, "_cuda_getDevice", None)
_current_stream: Any = getattr(torch._C, "_cuda_getCurrentRawStream", None)


def _starts_as_expected() -> bool:
    """Whether this version of Triton starts a compiled kernel with the very call that is made here."""
    if interpreted() or _current_device is None or _current_stream is None or torch.version.hip is not None:
        return False
    try:
        source = inspect.getsource(JITFunction.run)
    except (OSError, TypeError):
        return False
    return "".join(_CALL.split()) in "".join(source.split())


LEAN = _starts_as_expected()
"""Whether variants are remembered; else every launch is Triton's own."""


def on_device_of(x: Tensor) -> AbstractContextManager[Any]:
    """Kernels are started on the current device, which need not be that of their arguments."""
    return nullcontext() if torch.compiler.is_compiling() else torch.cuda.device_of(x)


def launch(kernel: Any, grid: tuple[int, ...], *arguments: Any, **options: Any) -> None:
    """Start a kernel on the device of its first argument, a tensor, which need not be the current device.

    Keywords are what a kernel is compiled for, all else comes in its order. Where a card has less shared memory than
    the one that ``STAGES`` or ``num_stages`` were measured on, it takes fewer of them.
    """
    if torch.compiler.is_dynamo_compiling():  # which reads this launch, and nothing around it
        kernel[grid](*arguments, **options)
        return
    if not LEAN:
        _start(kernel, grid, arguments, options)
        return
    device, values, looks = arguments[0].get_device(), [], []
    for a in arguments:
        kind = type(a)
        if kind is Tensor or kind is Parameter:
            looks.append(a.dtype)
            a = a.data_ptr()
            looks.append(a & 15)
        elif kind is int or a is None:
            looks.append(a)
        else:  # numbers with a point are never compiled for; True equals 1 and is another kind
            looks.append(kind if kind is float else (kind, a))
        values.append(a)
    key = (id(kernel), device, *looks, *options, *options.values())
    found = _known.get(key)
    if found is None or device != _current_device() or _watched(kernel):
        _remember(key, kernel, _start(kernel, grid, arguments, options), len(arguments), options)
        return
    run, function, metadata, rest = found
    x, y, z = grid if len(grid) == 3 else (*grid, 1, 1)[:3]
    run(x, y, z, _current_stream(device), function, metadata, None, None, None, *values, *rest)


def _watched(kernel: Any) -> bool:
    """Whether someone, a profiler say, wants to hear of launches."""
    enter, leave = _runtime.launch_enter_hook, _runtime.launch_exit_hook
    return bool(getattr(enter, "calls", enter) or getattr(leave, "calls", leave) or kernel.pre_run_hooks)


def _start(kernel: Any, grid: tuple[int, ...], arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """Triton's own launch; the compiled variant, if that is told."""
    compiled_for = (id(kernel), arguments[0].device, *options, *options.values())
    options = options | _fewer_stages.get(compiled_for, {})
    stages = next((name for name in _STAGES if name in options), None)
    with on_device_of(arguments[0]):
        while True:
            try:
                return kernel[grid](*arguments, **options)
            except OutOfResources:
                if stages is None or options[stages] <= 1:
                    raise
                options = options | {stages: options[stages] - 1}
                _fewer_stages[compiled_for] = {stages: options[stages]}


def _remember(key: tuple[Any, ...], kernel: Any, compiled: Any, given: int, options: dict[str, Any]) -> None:
    """A variant, if its arguments were nothing out of the ordinary."""
    if type(kernel) is not JITFunction or not isinstance(compiled, CompiledKernel):
        return
    plain = all(type(look) is not tuple or look[0] in (bool, str) for look in key)
    later = kernel.params[given:]
    if plain and all(p.is_constexpr and p.name in options for p in later):
        if len(_known) >= MOST:
            _known.clear()
        rest = tuple(options[p.name] for p in later)
        _known[key] = compiled.run, compiled.function, compiled.packed_metadata, rest
