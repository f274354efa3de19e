"""Which backend does the work. A new one is a file with ``supports`` and ``run``, and one line in ``BACKENDS``.

``tests/kernel_suite.py`` proves it: values and all gradients against a loop in float64, odd lengths, states, padding.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import torch

from wellposed.errors import ArgumentError
from wellposed.kernels import chunks, fft, fused
from wellposed.kernels.device import exporting
from wellposed.kernels.work import Output, Work

Mode = str
"""``"auto"``, or the name of a backend."""


class Backend(NamedTuple):
    """A way to compute, whether it can do a piece of work, and on which kinds of device it is the fastest."""

    run: Callable[[Work], Output]
    supports: Callable[[Work], bool]
    fastest_on: tuple[str, ...] = ()
    takes_bfloat16: bool = False
    """Whether it reads and writes sequences in bfloat16; for others they are converted to float32."""


BACKENDS: dict[str, Backend] = {
    # Many short operations wait for each other on a GPU, where one large FFT does not: results/bench-layers-h200.json.
    "scan": Backend(chunks.run, chunks.supports, fastest_on=("cpu",)),
    "conv": Backend(fft.run, fft.supports, fastest_on=("cuda",)),
    "triton": Backend(fused.run, fused.supports, fastest_on=("cuda",), takes_bfloat16=True),
}


def run(work: Work, mode: str = "auto") -> Output:
    """The sequences that come out of the systems, and the last state if ``want_state``; ``mode`` names a backend."""
    backend = BACKENDS[choose(work, mode)]
    if work.u.dtype != torch.bfloat16 or backend.takes_bfloat16:
        return backend.run(work)
    y, state = backend.run(replace(work, u=work.u.float()))
    return y.to(work.u.dtype), state


def choose(work: Work, mode: str = "auto") -> str:
    """The backend asked for; left to choose, the fastest on this device that can do it.

    What is exported need not run as it was trained: there the choice is always free.
    """
    free = mode == "auto" or exporting()
    # The newest first: what is added is meant to be faster.
    fast = [name for name in BACKENDS if work.u.device.type in BACKENDS[name].fastest_on][::-1]
    for name in (*fast, *BACKENDS) if free else (mode,):
        if name in BACKENDS and BACKENDS[name].supports(work):
            return name
    able = [name for name, backend in BACKENDS.items() if backend.supports(work)]
    what = f"{str(work.u.dtype).removeprefix('torch.')} on {work.u.device}"
    raise ArgumentError(f"mode={mode!r} cannot do this ({what}); what can: {', '.join(able)}, or mode='auto'")
