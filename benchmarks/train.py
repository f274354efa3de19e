"""What a run adds to its training steps, how long an epoch takes, and what precision does to accuracy.

    python benchmarks/train.py --data DIR --record results/bench-train-h200.json
    python benchmarks/train.py --data DIR --only accuracy --record results/precision-h200.json

Greyscale sCIFAR, batches of 64, on one GPU.

A bare step is forward, backward and optimiser of one batch, captured in a CUDA graph and replayed. A run cuts its
batches, follows its schedule, counts, looks for odd numbers, writes its metrics and shows how far it is. ``--tiny``
tries it on a CPU in seconds, with toy data and without graphs.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

from timing import milliseconds, recorded, release
from wellposed.data import SequenceDataset, load
from wellposed.nn import SequenceClassifier
from wellposed.presets import preset, tiny
from wellposed.records import provenance
from wellposed.train import RunConfig, run, with_overrides

PRESET, EPOCHS = "scifar-grey-s4ptd", 5
ACCURACY_EPOCHS, SEEDS = 6, (0, 1, 2)
MOST_OVERHEAD, MOST_SECONDS = 0.03, 2.5
"""Bars: of a run over its bare step, and of an epoch with its evaluation."""


def bare_step(config: RunConfig, dataset: SequenceDataset, device: str) -> float:
    """Milliseconds of the step alone."""
    torch.manual_seed(0)
    model = SequenceClassifier(**dataset.sizes, **config.model).to(device)
    cuda, half = device == "cuda", config.precision == "bf16"
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3, fused=cuda, capturable=cuda)
    batch = dataset.batch(torch.arange(config.data.batch_size), device=device)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(device, torch.bfloat16, enabled=half, cache_enabled=False):
            loss = F.cross_entropy(batch.through(model).float(), batch.y)
        loss.backward()
        optimizer.step()

    found = milliseconds(recorded(step).replay if cuda else step, device)
    release()
    return found


def measure(precision: str, config: RunConfig, splits: dict[str, SequenceDataset], device: str) -> dict[str, Any]:
    """A row: the bare step, the step of a run, and its epochs after the first, which compiles and records."""
    config = with_overrides(config, {"precision": precision, "epochs": EPOCHS})
    torch.set_float32_matmul_precision("high")
    bare = bare_step(config, splits["train"], device)
    with tempfile.TemporaryDirectory() as folder:
        run(config, folder, datasets=splits, device=device, progress=False)
        lines = (Path(folder) / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    ends = [row["seconds"] for row in rows if row["kind"] == "epoch"]
    speeds = [row["samples_per_second"] for row in rows if row["kind"] == "step"]
    epoch = statistics.median(after - before for before, after in pairwise(ends))
    inside = 1e3 * epoch * EPOCHS / rows[-1]["step"]  # with its share of the evaluation, where runs are that short
    if speeds:
        inside = 1e3 * config.data.batch_size / statistics.median(speeds)
    row = {"precision": precision, "bare_ms": bare, "run_ms": inside, "epoch_seconds": epoch, "epochs": ends}
    row |= {"overhead": inside / bare - 1, "overhead_bar": MOST_OVERHEAD, "epoch_bar": MOST_SECONDS}
    return row | {"overhead_met": inside / bare - 1 <= MOST_OVERHEAD, "epoch_met": epoch <= MOST_SECONDS}


def accuracy(precision: str, config: RunConfig, splits: dict[str, SequenceDataset], device: str) -> dict[str, Any]:
    """A row: test accuracy after a few epochs, for several seeds."""
    seeds, epochs = (SEEDS, ACCURACY_EPOCHS) if device == "cuda" else (SEEDS[:2], 1)
    row: dict[str, Any] = {"precision": precision, "epochs": epochs, "seeds": list(seeds), "test_accuracy": []}
    for seed in seeds:
        chosen = with_overrides(config, {"precision": precision, "epochs": epochs, "seed": seed})
        with tempfile.TemporaryDirectory() as folder:
            done = run(chosen, folder, datasets=splits, device=device, progress=False, summary=False)
            row["test_accuracy"].append(done.test_metrics["accuracy"])
    return row | {"mean": statistics.mean(row["test_accuracy"]), "spread": statistics.stdev(row["test_accuracy"])}


def main() -> None:
    """Measure, print, and with --record keep it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="the data folder")
    parser.add_argument("--record", type=Path, help="write the rows and their provenance to this JSON file")
    parser.add_argument("--only", choices=("speed", "accuracy"), help="measure one of the two")
    parser.add_argument("--tiny", action="store_true", help="a toy on the CPU, without graphs")
    options = parser.parse_args()
    device = "cpu" if options.tiny else "cuda"
    if device == "cuda" and not torch.cuda.is_available():
        print("there is no GPU here: --tiny tries the benchmark on the CPU")
        return
    config = tiny(preset(PRESET)) if options.tiny else preset(PRESET)
    start, rows = time.perf_counter(), []
    folder = tempfile.mkdtemp() if options.tiny else options.data
    splits = {s: load(config.data.task, folder, s, **config.data.options) for s in ("train", "val", "test")}
    if options.only != "accuracy":
        for precision in ("tf32", "bf16"):
            rows.append(measure(precision, config, splits, device))
            print(
                "{precision}: bare step {bare_ms:.3f} ms, in a run {run_ms:.3f} ms ({overhead:+.1%}), "
                "an epoch with its evaluation {epoch_seconds:.2f} s".format(**rows[-1])
            )
    found = []
    if options.only != "speed":
        for precision in ("float32", "tf32", "bf16"):
            found.append(accuracy(precision, config, splits, device))
            print(
                "{precision}: accuracy {mean:.2%} after {epochs} epochs, from seed to seed {spread:.2%}".format(
                    **found[-1]
                )
            )
    if options.record:
        command = " ".join(["python benchmarks/train.py", *sys.argv[1:]])
        made = provenance(command, time.perf_counter() - start, seed=0)
        record = {"preset": PRESET, "rows": rows, "accuracy": found, "provenance": made}
        options.record.parent.mkdir(parents=True, exist_ok=True)
        options.record.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
