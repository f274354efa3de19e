"""Modules that come out the same for the same seed, whatever else draws random numbers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def seeded(seed: int | None) -> Iterator[None]:
    """Modules made inside start on the CPU, from ``seed``; PyTorch's own generator is put back as it was.

    Without a seed that generator supplies the numbers, and moves on.
    """
    with torch.device("cpu"), torch.random.fork_rng(devices=[], enabled=seed is not None):
        if seed is not None:
            torch.default_generator.manual_seed(seed)
        yield
