"""Layers and a training step of two checkouts, measured in turn in one run: did a change make them slower?

    git worktree add ../before COMMIT
    python benchmarks/compare.py ../before/src --device cuda

Each side runs in a process of its own, twice, before and after the other, so that a machine that warms up or slows down
shows in the spread. What is compared is the smaller time of the two.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

from wellposed.nn import S4, S4D, S4PTD, S5PTD, SequenceClassifier

SIZES = {"cuda": [(64, 1024, 128), (16, 16384, 128), (50, 1024, 512)], "cpu": [(4, 1024, 64), (4, 4096, 64)]}
LAYERS: dict[str, Callable[[int], Any]] = {
    "s4ptd": lambda channels: S4PTD(channels, 64),
    "s4d, both directions": lambda channels: S4D(channels, 64, bidirectional=True),
    "s5ptd": lambda channels: S5PTD(channels, 256),
    "s4": lambda channels: S4(channels, 64),
}


def best(run: Callable[[], None], device: str, repeat: int = 10) -> float:
    """Milliseconds of the fastest of three rounds, after a warm-up."""
    rounds = []
    for k in range(4):
        start = _now(device)
        for _ in range(repeat if k else 3):
            run()
        rounds.append((_now(device) - start) / repeat)
    return 1e3 * min(rounds[1:])


def _now(device: str) -> float:
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


def measure(device: str) -> dict[str, float]:
    """Forward and backward of each layer at each size, and a step of a small model."""
    found = {}
    for batch, length, channels in SIZES[device]:
        u = torch.randn(batch, length, channels, device=device, requires_grad=True)
        for name, make in LAYERS.items():
            if name in ("s4", "s5ptd") and length > 2000:  # dense tables, and states at all steps: gigabytes
                continue
            layer = make(channels).to(device)

            def both(layer: Any = layer, u: torch.Tensor = u) -> None:
                layer(u).sum().backward()
                u.grad = None
                layer.zero_grad()

            found[f"{name}, {batch} x {length} x {channels}"] = best(both, device, 10 if device == "cuda" else 2)
    found["training step, 4 x 128"] = training_step(device)
    return found


def training_step(device: str) -> float:
    """The model of the paper's sCIFAR, without its data."""
    batch = 64 if device == "cuda" else 2
    model = SequenceClassifier(3, 10, d_model=128, n_layers=4, norm="batch").to(device)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    x, y = torch.randn(batch, 1024, 3, device=device), torch.randint(10, (batch,), device=device)

    def step() -> None:
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()

    return best(step, device, 10 if device == "cuda" else 1)


def in_turn(before: Path, device: str) -> dict[str, list[dict[str, float]]]:
    """Before, now, before, now."""
    sides = {"before": before, "now": Path(__file__).parents[1] / "src"}
    runs: dict[str, list[dict[str, float]]] = {"before": [], "now": []}
    for _ in range(2):
        for side, source in sides.items():
            command = [sys.executable, __file__, "--one", "--device", device]
            environment = os.environ | {"PYTHONPATH": str(source)}
            done = subprocess.run(command, env=environment, capture_output=True, check=True)
            runs[side].append(json.loads(done.stdout))
    return runs


def main() -> None:
    """Print a table and write a record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=Path, nargs="?")
    parser.add_argument("--device", default="cpu", choices=SIZES)
    parser.add_argument("--record", type=Path, help="write the table and its provenance to this JSON file")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(options.device)))
        return
    if options.before is None:
        print("nothing to compare with: give the src of another checkout")
        return
    if not (options.before / "wellposed").is_dir():
        parser.error(f"{options.before} is no folder with the package in it: give the src of another checkout")
    start = time.perf_counter()
    runs = in_turn(options.before, options.device)
    rows = []
    print(f"{'forward and backward':44} {'before':>9} {'now':>9}  before / now")
    for name in runs["now"][0]:
        before, now = (min(run[name] for run in runs[side]) for side in ("before", "now"))
        rows.append({"case": name, "before": before, "now": now})
        print(f"{name:44} {before:6.2f} ms {now:6.2f} ms  {before / now:.2f}")
    if options.record:
        from wellposed.records import provenance  # not at the top: commits to compare with may not have it

        command = f"python benchmarks/compare.py BEFORE --device {options.device}"
        record = {"rows": rows, "runs": runs, "provenance": provenance(command, time.perf_counter() - start)}
        options.record.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
