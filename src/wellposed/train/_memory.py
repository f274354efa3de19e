"""How much memory training takes; and when a GPU's is full, how much it took and which batch would fit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from wellposed.errors import DeviceMemoryError
from wellposed.train._config import RunConfig

_KEPT = 8
"""Numbers kept for the backward pass for each step of a sequence, channel and layer: inputs, norms, gate, outputs."""
_SHARE = 0.9
"""Of the memory that an estimate may fill: the allocator leaves gaps."""


def training_bytes(config: RunConfig, parameters: int, elements: float) -> float:
    """What a training step holds at most, roughly; ``elements`` are the steps of a batch, times channels and layers."""
    narrow = 2 if config.precision == "bf16" else 1
    # weights, gradients and the two averages of Adam; one more where the weights themselves are averaged
    return 4 * parameters * (5 if config.ema else 4) + 4 * elements * (_KEPT + _states(config.model)) / narrow


def model_size(model: Mapping[str, Any], name: str) -> int:
    """``n_layers`` or ``d_model`` of a config's model."""
    return model.get(name, {"n_layers": 4, "d_model": 128}[name])


def _states(model: Mapping[str, Any]) -> float:
    """Numbers kept besides, for each channel: of S5 the states of every step."""
    options = model.get("layer_options", {})
    return 2 * options.get("d_state", 64) / model_size(model, "d_model") if "blocks" in options else 1.0


def largest_batch(measure: Callable[[int], int], batch_size: int, limit: int) -> int | None:
    """The largest batch below ``batch_size`` that takes less than ``limit`` bytes, by a line through two measurements.

    ``measure`` returns the bytes a batch takes, or raises ``torch.cuda.OutOfMemoryError``. ``None``: not even one fits.

    >>> largest_batch(lambda size: 1000 + 10 * size, 5000, 20_000)
    1700
    """
    small = batch_size
    while (small := small // 4 if small > 4 else small - 1) >= 1:
        try:
            one = measure(small)
            break
        except torch.cuda.OutOfMemoryError:
            continue
    else:
        return None
    half = max(small // 2, 1)
    if half == small:
        return small
    slope = max((one - measure(half)) / (small - half), 1.0)
    fits = int(small + (_SHARE * limit - one) / slope)
    return min(max(fits, small), batch_size - 1)


def out_of_memory(batch_size: int, measure: Callable[[int], int], device: torch.device) -> DeviceMemoryError:
    """The error, with the most that was in use and what would fit."""
    peak = torch.cuda.max_memory_allocated(device) / 2**30
    total = torch.cuda.get_device_properties(device).total_memory
    torch.cuda.empty_cache()
    fits = largest_batch(measure, batch_size, total)
    remedy = (
        f"about {fits} would fit: data.batch_size = {fits}" if fits else "not even one sequence fits: a smaller model"
    )
    return DeviceMemoryError(
        f"a batch of {batch_size} does not fit on this GPU: {peak:.1f} of {total / 2**30:.1f} GiB were in use; "
        f"{remedy}, precision = 'bf16', or several GPUs"
    )


def out_of_host_memory(batch_size: int) -> DeviceMemoryError:
    """The same on a CPU, where what is in use is not known."""
    return DeviceMemoryError(
        f"a batch of {batch_size} does not fit in this machine's memory: try data.batch_size = "
        f"{max(batch_size // 2, 1)}, or a smaller model"
    )


def measured(step: Callable[[int], None], device: torch.device) -> Callable[[int], int]:
    """Bytes in use at most while ``step`` of a batch size runs."""

    def measure(size: int) -> int:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)
        step(size)
        return torch.cuda.max_memory_allocated(device)

    return measure
