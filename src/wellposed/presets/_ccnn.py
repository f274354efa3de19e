"""CCNN on the Long Range Arena: one network of continuous kernels, in two sizes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from wellposed.errors import UnknownNameError
from wellposed.presets._tasks import SHAPES, batches_of, settled
from wellposed.train import OptimizerConfig, RunConfig, ScheduleConfig

Size = Literal["6,380", "4,140"]


@dataclass(frozen=True, kw_only=True)
class CCNNRow:
    """One of the published commands."""

    hidden: int = 32
    """Inside the network that makes a kernel."""
    omega_0: float
    mask: float
    dropout: float
    tied: bool = True
    """Whether dropout takes whole channels: their ``Dropout2d``, of sequences."""
    lr: float
    regularisation: float = 0.0
    """What the command calls weight decay."""
    batch: int = 50
    epochs: int = 210


# ccnn, experiments/README.md
_LISTOPS, _TEXT, _IMAGE, _PATHFINDER = 784.655, 2966.605, 4005.146, 2272.557
ROWS: dict[str, dict[str, CCNNRow]] = {
    "6,380": {
        "listops": CCNNRow(omega_0=_LISTOPS, mask=0.03, dropout=0.25, tied=False, lr=0.001, epochs=60),
        "text": CCNNRow(hidden=64, omega_0=_TEXT, mask=0.03, dropout=0.3, tied=False, lr=0.02, batch=25, epochs=60),
        "image": CCNNRow(hidden=64, omega_0=_IMAGE, mask=0.075, dropout=0.1, lr=0.01),
        "pathfinder": CCNNRow(
            hidden=64, omega_0=_PATHFINDER, mask=0.4, dropout=0.1, lr=0.01, regularisation=1e-6, batch=100
        ),
    },
    "4,140": {
        "listops": CCNNRow(
            omega_0=_LISTOPS, mask=0.03, dropout=0.1, tied=False, lr=0.001, regularisation=1e-6, epochs=60
        ),
        "text": CCNNRow(omega_0=_TEXT, mask=0.015, dropout=0.2, tied=False, lr=0.001, regularisation=1e-5, epochs=60),
        "image": CCNNRow(omega_0=_IMAGE, mask=0.075, dropout=0.1, lr=0.01),
        "pathfinder": CCNNRow(omega_0=_PATHFINDER, mask=0.4, dropout=0.2, lr=0.01, batch=100),
    },
}
_WARMUP = 10


def lra_ccnn(task: str, size: Size = "6,380") -> RunConfig:
    """CCNN by the commands of its authors: 6 blocks of 380 channels, or 4 of 140.

    The published accuracies are presumably the larger one's. Tokens enter as one number, their index, as theirs do.
    Two classes have two outputs here, one there. There is no command for Retrieval and Path-X.
    """
    if size not in ROWS or task not in ROWS[size]:
        raise UnknownNameError("task of this table", task, ROWS["6,380"])
    row, (depth, features) = ROWS[size][task], map(int, size.split(","))
    note = "means are over the true steps, where theirs are over all of a batch padded with zeros on the left"
    if row.regularisation:
        note += f"; without the penalty of {row.regularisation:g} times the norms of weights and kernels"
    if row.batch == 25:
        note += "; their batch of 25 was that of each of several GPUs"
    return RunConfig(
        data=batches_of(task, row.batch),
        model={
            "encoding": "layer",
            "layer": "flexconv",
            "layer_options": {
                "length": SHAPES[task].length,
                "hidden": row.hidden,
                "omega_0": row.omega_0,
                "mask_width": row.mask,
            },
            "norm": "batch",
            "glu": "linear",
            "dropout": row.dropout,
            "tied_dropout": row.tied,
            "d_model": features,
            "n_layers": depth,
        },
        optimizer=OptimizerConfig(lr=row.lr, weight_decay=0.0),
        schedule=ScheduleConfig(warmup_epochs=_WARMUP),
        evaluation=settled("batch"),
        epochs=row.epochs,
        note=note,
    )
