"""The folder of a run that never ran, for pages to be drawn from."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from pathlib import Path
from typing import Any

from wellposed.records import Record, provenance

CONFIG = {"data": {"task": "waves", "options": {}}, "model": {"layer": "s4d", "d_model": 8}, "epochs": 4, "note": ""}


def data(**changes: Any) -> dict[str, Any]:
    """What came out."""
    best = {"train": {"loss": 0.2, "accuracy": 0.91}, "val": {"loss": 0.3, "accuracy": 0.87}}
    found = {
        "preset": "", "note": "", "config": CONFIG, "finished": True, "stopped": "", "epochs": 4, "steps": 12,
        "best_epoch": 3, "selected_on": "val", "best": best, "test": {"loss": 0.31, "accuracy": 0.8625},
        "parameters": 1234, "device_minutes": 0.1, "processes": 1,
    }  # fmt: skip
    return found | changes


def layer(scale: float = 1.0, upper: float | None = 1.0, number: int = 0) -> dict[str, Any]:
    """One layer whose largest response is ``20 * scale`` after training."""

    def side(loud: float) -> dict[str, Any]:
        cycles = [10 ** (-5 + 4.69 * k / 40) for k in range(41)]
        curve = [loud * (0.1 + math.exp(-((k - 30) ** 2))) for k in range(41)]
        worst = {"channel": 2, "value": loud, "cycles": cycles[30], "upper": None if upper is None else upper * loud}
        eigenvalues = [[-0.5 * loud / 20] * 8, [3.0 * k * loud / 10 for k in range(8)]]
        response = {"cycles": cycles, "largest": curve, "median": curve, "worst": [worst]}
        return {"dt": [0.001 * 1.7**k for k in range(8)], "eigenvalues": eigenvalues, "response": response}

    name = f"backbone.blocks.{number}.layer"
    return {"name": name, "kind": "S4D", "bidirectional": False, "before": side(10 * scale), "after": side(20 * scale)}


def make(folder: Path, *, layers: int = 3, **changes: Any) -> Path:
    """Write all of it."""
    folder.mkdir()
    made = provenance("wellposed train waves", 754.2, 0)
    record = Record("waves-<run>", "Training of waves", "", "", "", [], data(**changes), made)
    (folder / "record.json").write_text(json.dumps(asdict(record)))
    rows = []
    for k in range(1, 5):
        seen = {f"{split}_{name}": 0.2 + 0.1 / k for split in ("train", "val") for name in ("loss", "accuracy")}
        rows.append({"kind": "epoch", "step": 3 * k, "epoch": k, "lr": 0.01 / k} | seen)
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows) + '{"kind": "ep')
    one = {"from_step": 0, "device": "cpu", "processes": 1, **made}
    (folder / "environment.json").write_text(json.dumps({"slices": [one, one | {"from_step": 6, "device": "cuda:0"}]}))
    described = [layer(1 + number, number=number) for number in range(layers)]
    (folder / "analysis.json").write_text(json.dumps({"schema": 1, "layers": described}))
    return folder
