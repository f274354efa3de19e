"""How the GPU's benchmark measures: milliseconds called and replayed from a graph, peak of memory, precisions."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import torch

PRECISIONS = ("highest", "high", "bf16")
"""Of PyTorch's own switch: float32, tf32; and bf16 autocast, with tf32 where float32 is left."""
WARM_UPS, FEWEST, MOST = 3, 5, 30
SECONDS = 0.3
"""How long one number is measured, where that takes more repetitions than the fewest."""

Run = Callable[[], object]
Measured = dict[str, Any]


@contextmanager
def multiplying(precision: str) -> Iterator[None]:
    """float32 matrix products as the precision says; autocast is entered by what is measured, around its forward."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest" if precision == "highest" else "high")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def autocast(device: str, precision: str) -> torch.autocast:
    """Entered anew for each call: the weights it has cast and kept would otherwise be missing in a graph."""
    return torch.autocast(device, torch.bfloat16, enabled=precision == "bf16")


def measure(run: Run, device: str) -> Measured:
    """Milliseconds of ``run`` called (``"eager"``) and replayed (``"graph"``), and its peak of memory (``"bytes"``).

    What fails leaves the others standing and says why under ``"failed"``.
    """
    found: Measured = {"graph": None, "eager": None, "bytes": None}
    try:
        if device == "cuda":
            run()  # compiles, plans, allocates states of an optimiser
            found["bytes"] = peak(run)
        found["eager"] = milliseconds(run, device)
        if device == "cuda":
            found["graph"] = milliseconds(recorded(run).replay, device)
    except Exception as error:  # the next row may still be measured
        found["failed"] = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"[:300]
    release()
    return found


def milliseconds(run: Run, device: str) -> float:
    """The median of several, after a warm-up."""
    clock = _events if device == "cuda" else _wall_clock
    rough = min(clock(run, WARM_UPS if device == "cuda" else 1))
    most = MOST if device == "cuda" else 3
    return statistics.median(clock(run, max(min(FEWEST, most), min(most, int(1e3 * SECONDS / max(rough, 1e-3))))))


def _events(run: Run, count: int) -> list[float]:
    marks = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(count)]
    torch.cuda.synchronize()
    for start, end in marks:
        start.record()
        run()
        end.record()
    torch.cuda.synchronize()
    return [start.elapsed_time(end) for start, end in marks]


def _wall_clock(run: Run, count: int) -> list[float]:
    times = [time.perf_counter()]
    for _ in range(count):
        run()
        times.append(time.perf_counter())
    return [1e3 * (end - start) for start, end in pairwise(times)]


def peak(run: Run) -> int:
    """Bytes allocated at the worst moment, beyond what was there before."""
    release()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    run()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() - before


def recorded(run: Run) -> torch.cuda.CUDAGraph:
    """A graph of one run, warmed up on a stream aside as PyTorch asks for."""
    aside = torch.cuda.Stream()
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside):
        for _ in range(2):
            run()
    torch.cuda.current_stream().wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    return graph


def release() -> None:
    """Give back what the last row left."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def copy_milliseconds(elements: int, dtype: torch.dtype, device: str) -> float:
    """A copy of so many numbers on the device: one pass to read, one to write."""
    source = torch.empty(elements, dtype=dtype, device=device)
    target = torch.empty_like(source)

    def ten_times() -> None:  # one alone would be shorter than its launch
        for _ in range(10):
            target.copy_(source)

    return milliseconds(ten_times, device) / 10
