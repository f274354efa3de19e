"""Luna-256 on the Long Range Arena."""

from __future__ import annotations

from dataclasses import dataclass

from wellposed.errors import UnknownNameError
from wellposed.presets._tasks import batches_of, pixel_levels
from wellposed.train import OptimizerConfig, RunConfig, ScheduleConfig


@dataclass(frozen=True, kw_only=True)
class LunaRow:
    """One of the published recipes."""

    depth: int
    features: int
    ffn: int
    heads: int
    head: int
    """Width of the hidden layer behind the pooling."""
    pooling: str = "first"
    init: str = "xavier"
    dropout: float
    attention_dropout: float = 0.1
    lr: float
    warmup: int
    batch: int
    epochs: int
    """Its updates, in whole passes."""
    weight_decay: float = 0.0


# fairseq-apollo, examples/luna/README.lra.md
ROWS: dict[str, LunaRow] = {
    "listops": LunaRow(
        depth=1, features=512, ffn=2048, heads=8, head=2048, init="normal", dropout=0.1, lr=1e-4, warmup=1000, batch=32,
        epochs=2, weight_decay=1e-4,
    ),
    "text": LunaRow(
        depth=4, features=256, ffn=1024, heads=4, head=1024, init="normal", dropout=0.3, attention_dropout=0.3, lr=5e-5,
        warmup=8000, batch=32, epochs=28, weight_decay=1e-4,
    ),
    "retrieval": LunaRow(
        depth=4, features=128, ffn=512, heads=4, head=512, dropout=0.1, lr=5e-4, warmup=8000, batch=32, epochs=4,
        weight_decay=1e-4,
    ),
    "image": LunaRow(
        depth=1, features=64, ffn=128, heads=8, head=128, dropout=0.3, lr=5e-3, warmup=4000, batch=256, epochs=199,
    ),
    "pathfinder": LunaRow(
        depth=1, features=128, ffn=128, heads=4, head=256, pooling="mean", dropout=0.2, lr=1e-3, warmup=4000, batch=512,
        epochs=200,
    ),
}  # fmt: skip


def lra_luna(task: str) -> RunConfig:
    """Luna-256, by the recipes of its authors: a packed sequence of 256 rows, keys and values not tied.

    On ListOps one layer, as the command line of the recipe has it, not the six of its architecture. There is no recipe
    for Path-X. Training is in tf32 unless told otherwise, where theirs was in fp16.
    """
    if task not in ROWS:
        raise UnknownNameError("task of this table", task, ROWS)
    row = ROWS[task]
    options = {"n_heads": row.heads, "packed": 256, "dropout": row.attention_dropout, "init": row.init}
    return RunConfig(
        data=batches_of(task, row.batch),
        model={
            **pixel_levels(task),
            "layer": "luna",
            "layer_options": options,
            "positions": "sinusoidal",
            "pooling": row.pooling,
            "head": "gelu",
            "d_head": row.head,
            "norm": "layer",
            "prenorm": False,
            "d_ffn": row.ffn,
            "dropout": row.dropout,
            "tied_dropout": False,
            "d_model": row.features,
            "n_layers": row.depth,
        },
        optimizer=OptimizerConfig(lr=row.lr, betas=(0.9, 0.98), weight_decay=row.weight_decay),
        schedule=ScheduleConfig(name="rsqrt", warmup_steps=row.warmup),
        epochs=row.epochs,
        note="updates in whole epochs, warm-up from zero where the recipe begins at 1e-7",
    )
