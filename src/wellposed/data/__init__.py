"""Data sets for long sequences: found, fetched, built, verified, loaded."""

import sys
from typing import Any

from wellposed.data._batches import Batches
from wellposed.data._dataset import Batch, Info, PairBatch, SequenceDataset
from wellposed.data._order import Order
from wellposed.data._registry import TASKS, data_root, fetch, load, prepare, task, verify
from wellposed.data._vocabulary import Vocabulary
from wellposed.data.store import Builder
from wellposed.data.tasks import (
    SCIFAR,
    SMNIST,
    Image,
    ListOps,
    Pathfinder,
    PathX,
    PeerRead,
    Retrieval,
    Sinusoids,
    Task,
    Text,
    Toy,
    held_out,
)

__all__ = [
    "SCIFAR",
    "SMNIST",
    "TASKS",
    "Batch",
    "Batches",
    "Builder",
    "Image",
    "Info",
    "ListOps",
    "Order",
    "PairBatch",
    "PathX",
    "Pathfinder",
    "PeerRead",
    "Retrieval",
    "SequenceDataset",
    "Sinusoids",
    "Task",
    "Text",
    "Toy",
    "Vocabulary",
    "data_root",
    "fetch",
    "held_out",
    "load",
    "prepare",
    "task",
    "verify",
]


# Modules of tasks were here before they had a folder of their own, and can still be imported by those names.
for _module in (
    "image",
    "listops",
    "pathfinder",
    "pathx",
    "peerread",
    "retrieval",
    "scifar",
    "sinusoids",
    "smnist",
    "text",
):
    sys.modules[f"{__name__}.{_module}"] = sys.modules[f"{__name__}.tasks.{_module}"]


def __getattr__(name: str) -> Any:
    """Noise has moved to ``wellposed.nn``, and can still be had from here."""
    if name in ("FourierNoise", "fourier_noise"):
        from wellposed import nn

        return getattr(nn, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
