"""The Transformer of the Long Range Arena, as far as its recipes can be followed."""

from __future__ import annotations

from dataclasses import dataclass

from wellposed.errors import UnknownNameError
from wellposed.presets._tasks import batches_of
from wellposed.train import OptimizerConfig, RunConfig, ScheduleConfig


@dataclass(frozen=True, kw_only=True)
class TransformerRow:
    """One of the benchmark's configurations."""

    depth: int
    features: int
    heads: int
    dropout: float
    attention_dropout: float = 0.1
    lr: float
    batch: int
    epochs: int
    """Its steps, in whole passes."""
    warmup: int | None = None
    """Steps; an epoch where it is none."""
    weight_decay: float = 0.0
    clip: float | None = None


# lra_benchmarks/*/configs. Where rates fall with the square root of the steps, lr is the highest that they reach:
# 0.05 / sqrt(warm-up), on Retrieval what 5000 steps of a warm-up of 8000 come to.
ROWS: dict[str, TransformerRow] = {
    "listops": TransformerRow(
        depth=4, features=512, heads=8, dropout=0.1, lr=0.0016, batch=32, epochs=2, warmup=1000, weight_decay=0.1
    ),
    "text": TransformerRow(
        depth=4, features=256, heads=4, dropout=0.1, lr=0.00056, batch=32, epochs=28, warmup=8000, weight_decay=0.1
    ),
    "retrieval": TransformerRow(
        depth=4, features=128, heads=4, dropout=0.1, lr=0.00035, batch=32, epochs=1, warmup=2500, weight_decay=0.1
    ),
    "image": TransformerRow(
        depth=1, features=128, heads=8, dropout=0.3, attention_dropout=0.2, lr=0.0005, batch=256, epochs=200
    ),
    "pathfinder": TransformerRow(depth=4, features=32, heads=4, dropout=0.2, lr=0.001, batch=512, epochs=200),
    "pathx": TransformerRow(depth=1, features=32, heads=2, dropout=0.1, lr=0.001, batch=64, epochs=200, clip=1.0),
}


def lra_transformer(task: str) -> RunConfig:
    """A Transformer of the benchmark's depth, width and heads, behind the blocks of this library.

    Where the benchmark's has an MLP, positions added to the tokens, pixels as tokens and a class token, this one has
    the gated linear unit of S4, rotary positions, pixels as numbers and the mean over time: numbers of parameters
    differ, and published accuracies are a reference only. Rates follow a cosine on every task.
    """
    if task not in ROWS:
        raise UnknownNameError("task of this table", task, ROWS)
    row = ROWS[task]
    return RunConfig(
        data=batches_of(task, row.batch),
        model={
            "layer": "attention",
            "layer_options": {"n_heads": row.heads, "dropout": row.attention_dropout},
            "norm": "layer",
            "dropout": row.dropout,
            "tied_dropout": False,
            "d_model": row.features,
            "n_layers": row.depth,
        },
        optimizer=OptimizerConfig(lr=row.lr, betas=(0.9, 0.98), weight_decay=row.weight_decay, clip=row.clip),
        schedule=ScheduleConfig(warmup_epochs=1.0, warmup_steps=row.warmup),
        epochs=row.epochs,
        note="sizes of the benchmark's Transformer in the blocks of this library; published accuracy for reference",
    )
