"""Statistics of batch norm that belong to the weights as they are, not to those they were on the way."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

if TYPE_CHECKING:
    from lightning_fabric import Fabric


def settle(model: nn.Module, batches: Iterable[Any], fabric: Fabric | None = None) -> None:
    """Take the running statistics anew, all batches alike; weights stay, and nothing random is drawn in eval mode.

    Processes of ``fabric`` take the mean of what they find, each over its share of the batches.

    Running statistics are those of the last dozen steps (Wu and Johnson, 2021, "Rethinking 'Batch' in BatchNorm",
    section 3). At high rates a model has moved on since, and one whose classes differ little in their mean over time is
    thrown off by a tenth of a standard deviation.
    """
    norms = [module for module in model.modules() if isinstance(module, nn.modules.batchnorm._BatchNorm)]
    if not norms:
        return
    before = [(norm.momentum, norm.training) for norm in norms]
    for norm in norms:
        norm.reset_running_stats()
        norm.train().momentum = None  # the mean over all
    try:
        with torch.no_grad():
            for batch in batches:
                batch.through(model)
            if fabric is not None and fabric.world_size > 1:
                _agree(norms, fabric)
    finally:
        for norm, (momentum, training) in zip(norms, before, strict=True):
            norm.train(training).momentum = momentum


def _agree(norms: list[Any], fabric: Fabric) -> None:
    """On the mean of all processes."""
    for norm in norms:
        for found in (norm.running_mean, norm.running_var):
            mean = fabric.all_reduce(found.clone(), reduce_op="mean")
            assert isinstance(mean, torch.Tensor)
            found.copy_(mean)
