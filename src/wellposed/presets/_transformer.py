"""The Transformer of the Long Range Arena, and the same with hierarchical attention."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from wellposed.errors import UnknownNameError
from wellposed.presets._tasks import SHAPES, batches_of, pixel_levels
from wellposed.train import OptimizerConfig, RunConfig, ScheduleConfig


@dataclass(frozen=True, kw_only=True)
class TransformerRow:
    """One of the benchmark's configurations."""

    depth: int
    features: int
    attention: int | None = None
    """Channels of queries, keys and values where they are not the features."""
    heads: int
    mlp: int
    pooling: str = "cls"
    positions: str = "sinusoidal"
    dropout: float
    attention_dropout: float = 0.1
    lr: float
    batch: int
    epochs: int
    """Its steps, in whole passes."""
    warmup: int | None = None
    """Steps, after which rates fall with their square root; with none an epoch, and a cosine."""
    weight_decay: float = 0.0
    clip: float | None = None


_RSQRT = 0.05  # the benchmark's base rate: at the end of the warm-up it is this over the root of its steps
# lra_benchmarks/*/configs
ROWS: dict[str, TransformerRow] = {
    "listops": TransformerRow(
        depth=4, features=512, heads=8, mlp=1024, dropout=0.1, lr=_RSQRT / 1000**0.5, batch=32, epochs=2, warmup=1000,
        weight_decay=0.1,
    ),
    "text": TransformerRow(
        depth=4, features=256, heads=4, mlp=1024, dropout=0.1, lr=_RSQRT / 8000**0.5, batch=32, epochs=28, warmup=8000,
        weight_decay=0.1,
    ),
    "retrieval": TransformerRow(
        depth=4, features=128, heads=4, mlp=512, pooling="first", dropout=0.1, lr=_RSQRT / 8000**0.5, batch=32,
        epochs=1, warmup=8000, weight_decay=0.1,
    ),
    "image": TransformerRow(
        depth=1, features=128, attention=64, heads=8, mlp=128, positions="learned", dropout=0.3, attention_dropout=0.2,
        lr=0.0005, batch=256, epochs=200,
    ),
    "pathfinder": TransformerRow(
        depth=4, features=32, attention=16, heads=4, mlp=32, pooling="mean", dropout=0.2, lr=0.001, batch=512,
        epochs=200,
    ),
    "pathx": TransformerRow(
        depth=1, features=32, attention=16, heads=2, mlp=32, pooling="mean", positions="learned", dropout=0.1, lr=0.001,
        batch=64, epochs=200, clip=1.0,
    ),
}  # fmt: skip
_NOTE = "steps in whole epochs, AdamW's eps 1e-8 where the benchmark has 1e-9"


def lra_transformer(task: str) -> RunConfig:
    """The Transformer of the Long Range Arena, by the configurations of its repository.

    Pre-norm blocks without biases in attention, positions added, pixels as tokens, a class vector or the mean, and a
    head of two layers. Black pixels count as pixels, where the benchmark takes their token 0 for padding.
    """
    return _transformer(task, "attention", {"rotary": False}, _NOTE)


def lra_h_transformer(task: str) -> RunConfig:
    """H-Transformer-1D: the Transformer of the Long Range Arena with hierarchical attention in blocks of 16.

    Its authors published no recipe for the Long Range Arena: sizes and training are the benchmark's Transformer's, the
    block is that of their language models. Published accuracies are a reference only.
    """
    note = f"sizes and training of the benchmark's Transformer, the authors' are not published; {_NOTE}"
    return _transformer(task, "hierarchical-attention", {"block": 16}, note)


def _transformer(task: str, layer: str, options: dict[str, Any], note: str) -> RunConfig:
    if task not in ROWS:
        raise UnknownNameError("task of this table", task, ROWS)
    row = ROWS[task]
    options = {"n_heads": row.heads, "dropout": row.attention_dropout, "bias": False, "xavier": True, **options}
    return RunConfig(
        data=batches_of(task, row.batch),
        model={
            **pixel_levels(task),
            "layer": layer,
            "layer_options": options if row.attention is None else {**options, "d_attention": row.attention},
            "positions": row.positions,
            **({"max_length": SHAPES[task].length} if row.positions == "learned" else {}),
            "pooling": row.pooling,
            "head": "relu",
            "d_head": row.mlp,
            "norm": "layer",
            "activation": "gelu_tanh",  # JAX's GELU unless told otherwise
            "d_ffn": row.mlp,
            "dropout": row.dropout,
            "tied_dropout": False,
            "d_model": row.features,
            "n_layers": row.depth,
        },
        # Flax's Adam, like AdamW, shrinks every parameter.
        optimizer=OptimizerConfig(
            lr=row.lr, betas=(0.9, 0.98), weight_decay=row.weight_decay, decay="all", clip=row.clip
        ),
        schedule=ScheduleConfig(
            name="cosine" if row.warmup is None else "rsqrt", warmup_epochs=1.0, warmup_steps=row.warmup
        ),
        epochs=row.epochs,
        note=note,
    )
