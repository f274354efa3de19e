"""A function that only changes tensors at fixed places, recorded as a CUDA graph for each kind of input it meets."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

import torch

Key = TypeVar("Key", bound=Hashable)
Replay = Callable[[], None]

_WARM_UPS = 3
"""Calls of the first kind before it is recorded, as PyTorch asks for; of the others one, for what they compile."""


class Recorder:
    """Records nothing: the function itself is called every time."""

    def warm_up(self, function: Callable[[], None]) -> None:
        """A call."""
        function()

    def record(self, function: Callable[[], None]) -> Replay:
        """The function."""
        return function


class GraphRecorder(Recorder):
    """CUDA graphs that share memory: they never run at the same time, and leave nothing in it for one another."""

    def __init__(self, device: torch.device) -> None:
        self._device, self._pool = device, torch.cuda.graph_pool_handle()
        self._aside = torch.cuda.Stream(device)

    def warm_up(self, function: Callable[[], None]) -> None:
        """A call like any other, on the stream that recordings are made on: libraries set up there what they need."""
        here = torch.cuda.current_stream(self._device)
        self._aside.wait_stream(here)
        with torch.cuda.stream(self._aside):
            function()
        here.wait_stream(self._aside)

    def record(self, function: Callable[[], None]) -> Replay:
        """What does the same again; recording itself computes nothing."""
        graph = torch.cuda.CUDAGraph()
        # Threads that load data or write files may go on: only this one's calls are recorded.
        with torch.cuda.graph(graph, pool=self._pool, stream=self._aside, capture_error_mode="thread_local"):
            function()
        return graph.replay


class Recorded(Generic[Key]):
    """``function(key)``, called as it is at first and from a recording of each key later.

    Every call counts, those to warm up too, so that recording changes nothing in what is computed.
    """

    def __init__(self, function: Callable[[Key], Any], recorder: Recorder | None) -> None:
        self._function, self._recorder = function, recorder
        self._replays: dict[Key, Replay] = {}
        self._calls: dict[Key, int] = {}

    def __call__(self, key: Key) -> None:
        """Once more, for an input of this kind."""
        replay = self._replays.get(key)
        if replay is not None:
            return replay()
        if self._recorder is None:
            self._function(key)
            return None
        called = self._calls.get(key, 0)
        self._calls[key] = called + 1
        if called < (1 if self._replays else _WARM_UPS):
            return self._recorder.warm_up(lambda: self._function(key))
        return self._first(key)

    def _first(self, key: Key) -> None:
        assert self._recorder is not None
        try:
            replay = self._recorder.record(lambda: self._function(key))
        except torch.cuda.OutOfMemoryError:
            raise
        except RuntimeError as error:
            warnings.warn(f"a step could not be recorded and runs without a graph: {error}", stacklevel=4)
            self._recorder = None
            self._replays.clear()
            self._function(key)
            return
        self._replays[key] = replay
        replay()
