"""Single steps of a whole model replayed from a CUDA graph: one launch instead of dozens that wait for each other.

The first step of a kind (batch size, precision) runs as always and is then recorded. A recording has an input and
states at fixed places; a step copies its input there, replays, and hands out a copy of the output and the states where
they lie (``StreamState``). Whatever a graph cannot follow runs as always: gradients, training, hooks, states that grow.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.nn.modules.module import _has_any_global_hook

from wellposed.kernels.device import matmul_switch
from wellposed.nn._backbone import States
from wellposed.nn._encoders import TokenEncoder
from wellposed.nn._layer import SequenceLayer
from wellposed.nn._stream_state import StreamState
from wellposed.nn._tracing import inside_transform

ModelStep = Callable[[Tensor, States], tuple[Tensor, States]]
Recorder = Callable[[Callable[[], Tensor]], Callable[[], Tensor]]
"""Takes a function that works on tensors at fixed places; returns one that does the same again, and its output."""
_RECORDINGS = 8  # kept at once: a stream whose batch size changes all the time would fill the memory
_WARM_UPS = 3  # as PyTorch's documentation of whole-network capture asks for


def record_on_gpu(function: Callable[[], Tensor]) -> Callable[[], Tensor]:
    """A CUDA graph of ``function``, warmed up on a stream aside, where libraries set up what a capture must not."""
    aside = torch.cuda.Stream()
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside):
        for _ in range(_WARM_UPS):
            function()
    torch.cuda.current_stream().wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):  # other threads may go on, say to load data
        y = function()

    def replay() -> Tensor:
        graph.replay()
        return y

    return replay


class GraphStepper:
    """``step`` of a model on a GPU, from recordings; ``record`` makes one."""

    def __init__(self, model: nn.Module, step: ModelStep, record: Recorder = record_on_gpu) -> None:
        self._step = step
        self._record = record
        self._device = next(model.parameters()).device
        self._model = model
        self._recordings: dict[Any, _Recording | None] = {}
        self._look()

    def _look(self) -> None:
        """At the modules that there are: what they were when something was recorded is forgotten."""
        self._recordings.clear()
        self._modules = list(self._model.modules())
        self._children = [(module._modules, dict(module._modules)) for module in self._modules]
        self._layers = [module for module in self._modules if isinstance(module, SequenceLayer)]
        self._tokens = [module for module in self._modules if isinstance(module, TokenEncoder)]
        self._places = [
            (tensors, name)
            for module in self._modules
            for tensors in (module._parameters, module._buffers)
            for name, tensor in tensors.items()
            if tensor is not None
        ]
        self._addresses: list[int] = []

    def __call__(self, x: Tensor, state: Any) -> tuple[Tensor, Any]:
        """Output here, and the states after it: ``States``, but whoever checks that they are reads them."""
        if any(now != before for now, before in self._children):  # someone has put another module in the place of one
            self._look()
        for layer in self._layers:
            layer._check_undisturbed()
        if not self._can_replay(x):
            return self._step(x, state)
        self._forget_moved()
        key = self._key(x)
        if key not in self._recordings:
            return self._first(key, x, state)
        recording = self._recordings[key]
        if recording is None or not recording.accepts(state):
            return self._step(x, state)
        for encoder in self._tokens:  # a graph would look up a token that is not there
            encoder.check_vocabulary(x)
        return recording.step(x, state)

    def _first(self, key: Any, x: Tensor, state: Any) -> tuple[Tensor, Any]:
        """As always, which also finds what is wrong with the input; then recorded for the next one."""
        y, after = self._step(x, state)
        recording = None
        if _alike(state, after):
            try:
                recording = _Recording(self._step, x, after, self._record)
            except RuntimeError as error:
                warnings.warn(f"a step could not be recorded and runs without a graph: {error}", stacklevel=3)
        while len(self._recordings) >= _RECORDINGS:
            del self._recordings[next(iter(self._recordings))]
        self._recordings[key] = recording
        return y, after

    def _can_replay(self, x: Any) -> bool:
        if not isinstance(x, Tensor) or x.device != self._device or torch.is_grad_enabled():
            return False
        if torch.compiler.is_compiling() or inside_transform() or forward_ad._current_level >= 0:
            return False
        if x.is_cuda and torch.cuda.is_current_stream_capturing():
            return False
        if _has_any_global_hook():
            return False
        # Training means dropout and statistics. Hooks run in Python; those of the model itself are not called in steps.
        return not any(
            module.training or (module is not self._model and (module._forward_hooks or module._forward_pre_hooks))
            for module in self._modules
        )

    def _key(self, x: Tensor) -> tuple[Any, ...]:
        kind = x.device.type
        autocast = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else None
        return x.shape, x.dtype, autocast, matmul_switch()

    def _forget_moved(self) -> None:
        """A graph reads parameters where they were; put elsewhere, by ``model.to`` say, they are recorded anew."""
        addresses = [
            0 if (tensor := tensors.get(name)) is None else tensor.data_ptr() for tensors, name in self._places
        ]
        if addresses != self._addresses:
            self._recordings.clear()
            self._addresses = addresses


class _Recording:
    """One step with its input and its states at fixed places."""

    def __init__(self, step: ModelStep, x: Tensor, state: States, record: Recorder) -> None:
        kind = x.device.type
        autocast, dtype = torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind)

        def once() -> Tensor:
            # Weights that autocast has cast and kept would be gone when the caller leaves it.
            with torch.autocast(kind, dtype, enabled=autocast, cache_enabled=False):
                y, after = step(self._x, tuple(self._buffers))
            _copy(after, self._buffers)
            return y

        # Tensors made in inference mode could not be written to outside it.
        with torch.inference_mode(False), torch.no_grad(), torch.cuda.device_of(x):
            self._x = x.clone()
            self._buffers = [tensor.clone() for tensor in state]
            self._replay = record(once)
        self._last: StreamState | None = None

    def accepts(self, state: Any) -> bool:
        """Whether it can be put in place; anything else is the model's to refuse."""
        return state is self._last or (isinstance(state, tuple) and _alike(self._buffers, state))

    def step(self, x: Tensor, state: Any) -> tuple[Tensor, Any]:
        """The output, which is the caller's own, and the states where they lie."""
        last = self._last
        if last is not None and state is last and last.in_place:
            last.give_up()
        else:
            self._put(state)
        self._x.copy_(x)
        y = self._replay().clone()
        self._last = StreamState(self._buffers)
        return y, self._last

    def _put(self, state: Any) -> None:
        """Another stream, or an earlier state of this one: what was left in place is copied before it is lost."""
        tensors = tuple(state)
        if self._last is not None and self._last.in_place:
            self._last.read()
        _copy(tensors, self._buffers)


def _copy(tensors: States, buffers: list[Tensor]) -> None:
    torch._foreach_copy_(buffers, list(tensors))  # pyright: ignore[reportPrivateImportUsage]  # one launch for all


def _alike(one: Any, other: Any) -> bool:
    return len(one) == len(other) and all(
        isinstance(b, Tensor) and (a.shape, a.dtype, a.device) == (b.shape, b.dtype, b.device)
        for a, b in zip(one, other, strict=True)
    )
