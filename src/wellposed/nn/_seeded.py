"""Modules that come out the same for the same seed, whatever else draws random numbers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from wellposed._checks import seed as checked_seed


@contextmanager
def seeded(seed: int | None) -> Iterator[None]:
    """Modules made inside start on the CPU, from ``seed``; PyTorch's own generator is put back as it was.

    Without a seed that generator supplies the numbers, and moves on.
    """
    seed = None if seed is None else checked_seed(seed)
    with torch.device("cpu"), torch.random.fork_rng(devices=[], enabled=seed is not None):
        if seed is not None:
            torch.default_generator.manual_seed(seed)
        yield
