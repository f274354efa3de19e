"""Trained models that travel with the library: small, with a card that says where each comes from."""

from __future__ import annotations

import hashlib
import json
import math
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load, save
from torch import Tensor

from wellposed._files import make_folder, write_whole
from wellposed.data import SequenceDataset
from wellposed.errors import ArgumentError
from wellposed.experiments._measured import rounded
from wellposed.experiments._noise_measures import AMPLITUDE, UnderNoise
from wellposed.experiments._run_facts import changed
from wellposed.nn import SequenceModel
from wellposed.nn._pretrained import WEIGHTS
from wellposed.presets import PRESETS
from wellposed.train import DataConfig, RunResult
from wellposed.train._folder import CARD, start_name
from wellposed.train._result import load_model
from wellposed.train._splits import load_split

LIMIT = 3_000_000
"""Bytes of a model."""
FRESH = {"listops": {"train": 10, "val": 10, "test": 500}, "pathfinder": {"count": 5000}}
"""Options of the tasks whose data are generated: 500 sequences to test on."""
_WHOLE = ("A_log_real", "A_imag", "log_dt", "count")
"""What decides on frequencies stays in single precision."""


@dataclass(frozen=True)
class Shipped:
    """A model of the folder, and what its card says."""

    folder: Path
    card: dict[str, Any]

    def model(self) -> SequenceModel:
        """In single precision, on the CPU."""
        return load_model(self.folder, "cpu").float().eval()

    def fresh_data(self, seed: int, **sizes: int) -> SequenceDataset:
        """Sequences that were not there when it was trained; ``sizes`` are options of the task."""
        task = self.card["task"]
        options = {**self.card["options"], **FRESH[task], **sizes, "source": "generated", "seed": seed}
        config = DataConfig.from_dict({"task": task, "options": options, "normalize": self.card.get("normalize")})
        with tempfile.TemporaryDirectory() as folder:
            return load_split(config, folder, "test").to("cpu")  # on the heap: the folder goes away

    def measured(self, seed: int, **sizes: int) -> dict[str, Any]:
        """Accuracy on fresh data, clean and under layer noise, and how far chance may move it."""
        test = self.fresh_data(seed, **sizes)
        seen = UnderNoise(self.model(), test, device="cpu", count=None)
        told = self.card["accuracy"]
        return rounded(
            {
                "name": self.folder.name,
                "card": told,
                "items": len(test),
                "clean": seen.clean,
                "layer_noise": seen.layer().accuracy,
                "amplitude": AMPLITUDE,
                "deviation": math.sqrt(told * (1 - told) / len(test)),
            }
        )


def shipped(folder: Path = WEIGHTS) -> Iterator[Shipped]:
    """The models there are, by name."""
    for path in sorted(folder.glob(f"*/{CARD}")):
        yield Shipped(path.parent, json.loads(path.read_text(encoding="utf-8")))


def ship(run: RunResult, folder: Path = WEIGHTS) -> Path:
    """Put the model of a finished run there, in half precision but for what decides on frequencies."""
    config = run.config
    if not run.finished or "accuracy" not in run.test_metrics:
        raise ArgumentError(f"{run.folder} is not finished, or tells no classes: ship a classifier that is")
    if config.data.task not in FRESH:
        raise ArgumentError(
            f"{run.folder} was trained on {config.data.task}, which cannot be generated: {', '.join(FRESH)} can"
        )
    if config.name not in PRESETS:
        raise ArgumentError(f"{run.folder} is called {config.name!r}, which is no preset: its card would say nothing")
    weights, described = _halved(run)
    if len(weights) > LIMIT:
        much = f"{len(weights) / 1e6:.2f} MB, over {LIMIT / 1e6:g} MB"
        raise ArgumentError(f"the model of {run.folder} takes {much}: ship a smaller one")
    record = json.loads((run.folder / "record.json").read_text(encoding="utf-8"))
    made = record["provenance"]
    card = {
        "preset": config.name,
        "changed": changed(config),
        "task": config.data.task,
        "options": dict(config.data.options),
        "normalize": config.data.normalize,
        "seed": config.seed,
        "epochs": run.epoch,
        "best_epoch": run.best_epoch,
        "accuracy": round(run.test_metrics["accuracy"], 6),
        "hardware": made["hardware"]["gpu"] or made["hardware"]["cpu"],
        "commit": made["commit"],
        "date": made["date"],
        "before": _stages(record["data"].get("start")),
    }
    place = make_folder(make_folder(folder) / config.name)
    write_whole(place / "model.safetensors", weights)
    write_whole(place / "config.json", json.dumps(described, indent=2) + "\n")
    write_whole(place / CARD, json.dumps(card, indent=1) + "\n")
    write_whole(place / "README.md", _in_words(card, len(weights)))
    return place


def _stages(start: dict[str, Any] | None) -> list[dict[str, Any]]:
    """The runs whose weights it began with, the earliest first."""
    if start is None:
        return []
    known = {name: start[name] for name in ("task", "options", "seed", "epochs", "best_epoch") if name in start}
    before = (*start.get("before", ()), *_stages(start.get("start")))  # told by a card, or by the record of a run
    return [*before, {"name": start_name(start["folder"]), **known}]


def _halved(run: RunResult) -> tuple[bytes, dict[str, Any]]:
    """The two files of the model, its weights with half the bits."""
    with tempfile.TemporaryDirectory() as folder:
        saved = run.model("cpu").save_pretrained(folder)
        whole, described = (saved / name for name in ("model.safetensors", "config.json"))
        weights = save({name: _half(name, t) for name, t in load(whole.read_bytes()).items()})
        digest = hashlib.sha256(weights).hexdigest()
        return weights, json.loads(described.read_text(encoding="utf-8")) | {"sha256": digest}


def _half(name: str, tensor: Tensor) -> Tensor:
    keep = tensor.ndim < 2 or tensor.dtype != torch.float32 or name.rpartition(".")[2] in _WHOLE
    return tensor if keep else tensor.half()


def _stage_in_words(stage: dict[str, Any]) -> str:
    options = ", ".join(f"{name} = {value}" for name, value in stage.get("options", {}).items())
    epochs = f", best epoch {stage['best_epoch']} of {stage['epochs']}" if "epochs" in stage else ""
    return f"`{stage['name']}`{f' ({options})' if options else ''}{epochs}"


def _in_words(card: dict[str, Any], size: int) -> str:
    changes = f", with {card['changed']}" if card["changed"] else ""
    before = "".join(f"\n- **Before** that: {_stage_in_words(stage)}." for stage in reversed(card["before"]))
    return f"""# {card["preset"]}

A model of the wellposed library, trained on {card["task"]} of the Long Range Arena, which anybody can generate.

- **Made by** the preset `{card["preset"]}`{changes}, seed {card["seed"]}, {card["epochs"]} epochs, the best of which on
  validation was number {card["best_epoch"]}; on {card["hardware"]}, {card["date"]}, commit {card["commit"]}.{before}
- **Accuracy** on the test set: {100 * card["accuracy"]:.2f} %, before weights were rounded to half precision.
- **Size**: {size / 1e6:.2f} MB. Eigenvalues and steps are in single precision.
- **For** trying the library, and for watching what noise does: `wellposed reproduce lra` measures it on fresh data.
  It is of no use for anything else than its task.

```python
from wellposed.nn import SequenceClassifier

model = SequenceClassifier.from_pretrained("{card["preset"]}").float()
```
"""
