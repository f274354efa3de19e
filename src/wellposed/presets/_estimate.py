"""What a run costs, before it is begun: parameters exactly, memory and time roughly."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from wellposed.presets._tasks import TaskShape, shape_of
from wellposed.train import RunConfig
from wellposed.train._memory import model_size, training_bytes

_SECONDS = {"s4": 150e-12, "liquid-s4": 300e-12, "s5": 90e-12, "s5ptd": 90e-12}
"""Of a training step on an H200 in tf32, for each step of a sequence, channel and layer: from the bars of
benchmarks/gpu.py, which what is measured stays below. The diagonal layers take ..."""
_SECONDS |= {"luna": 300e-12, "hierarchical-attention": 600e-12, "flexconv": 300e-12}
"""Guessed: nothing measures these yet."""
_SECONDS_OF_OTHERS = 75e-12
_LAUNCH = 3e-4
"""Seconds of a training step that does nothing."""
_BF16 = 1.4
"""How many times faster a step is under bf16 autocast, at least."""
_MULTIPLY = 1.5e14
"""Multiplications and additions a second in attention, forward and backward, in tf32."""


@dataclass(frozen=True)
class Estimate:
    """The cost of a run."""

    parameters: int
    """Real numbers that the model has, frozen ones included."""
    steps: int
    """Of the optimiser, in the whole run."""
    memory: float
    """Bytes on the device while it trains, data aside; roughly."""
    seconds: float
    """Of the whole run on one H200, evaluation included; roughly, and rather too many."""


def estimate(config: RunConfig) -> Estimate:
    """What a run of a task of this library will cost.

    >>> from wellposed.presets import preset
    >>> found = estimate(preset("scifar-grey-s4ptd"))
    >>> found.parameters, found.steps
    (184842, 35150)
    """
    shape = shape_of(config.data.task, config.data.options)
    batch, parameters = config.data.batch_size, count_parameters(config, shape)
    steps = config.epochs * max(shape.train // batch if config.data.drop_last else math.ceil(shape.train / batch), 1)
    elements = (
        batch * _padded(config, shape) * model_size(config.model, "n_layers") * model_size(config.model, "d_model")
    )
    narrow = 2 if config.precision == "bf16" else 1
    memory = training_bytes(config, parameters, elements)
    seconds = _LAUNCH + _step(config.model, elements, shape.length) / (_BF16 if narrow == 2 else 1)
    evaluated = 1 + shape.val / shape.train / 3 / config.evaluation.every  # forward is a third of a step
    return Estimate(parameters, steps, memory, steps * seconds * evaluated)


def count_parameters(config: RunConfig, shape: TaskShape) -> int:
    """Of the model that the config describes. One block is built for that: the others have as many."""
    arguments = {**shape.sizes, "seed": 0, **config.to_dict()["model"], "n_layers": 1}
    block, whole = _counts(shape.pairs, json.dumps(arguments, sort_keys=True))
    return whole + (model_size(config.model, "n_layers") - 1) * block


@cache
def _counts(pairs: bool, arguments: str) -> tuple[int, int]:
    """Parameters of the block, and of the whole model of one block."""
    from wellposed.nn import PairClassifier, SequenceClassifier

    kind: Any = PairClassifier if pairs else SequenceClassifier
    model = kind(**json.loads(arguments))
    block, whole = (sum(p.numel() for p in part.parameters()) for part in (model.backbone.blocks[0], model))
    return block, whole


def _padded(config: RunConfig, shape: TaskShape) -> float:
    """Steps of an item with its padding: half of what lengths are rounded up to, or all there can be."""
    sequences = 2 if shape.pairs else 1
    longest = float(sequences * shape.length)  # nearly always there in a batch of all lengths
    if shape.mean_length is None or not config.buckets:
        return longest
    return min(shape.steps + sequences * config.data.multiple / 2, longest)


def _step(model: Mapping[str, Any], elements: float, length: int) -> float:
    layer = model.get("layer", "s4ptd")
    # Scores and sums: 4 length a number of the sequence, and the backward pass takes two and a half times as long.
    quadratic = 14 * elements * length / _MULTIPLY if layer == "attention" else 0.0
    return elements * _SECONDS.get(layer, _SECONDS_OF_OTHERS) + quadratic
