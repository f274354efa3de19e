"""What the prepared data sets hold: sizes, balance of the classes, lengths, pixels, vocabulary.

Of the tasks that the data folder given with --root holds the files of, and of generated ones: Path-X a sample of
1,000 pictures, the others whole. Without a folder, of the generated ones alone.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from wellposed.data import TASKS, Pathfinder, SequenceDataset, load, prepare, task
from wellposed.data.tasks._pathfinder import generate
from wellposed.errors import DataError
from wellposed.records import provenance

SPLITS = ("train", "val", "test")
SHARES = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)
DRAWN = {"pathfinder": 8000, "pathx": 500}
SAMPLES: dict[str, dict[str, Any]] = {"pathx": {"count": 1000}}


def describe(data: SequenceDataset) -> dict[str, Any]:
    """Of one split."""
    found: dict[str, Any] = {"items": len(data)}
    if data.classes:
        found["classes"] = np.bincount(data.y.numpy(), minlength=len(data.classes)).tolist()
    if data.vocabulary:
        lengths = data.lengths.numpy()
        found["length quantiles"] = dict(zip(map(str, SHARES), np.quantile(lengths, SHARES).tolist(), strict=True))
        found["mean length"] = float(lengths.mean())
        found["at the longest"] = float(np.mean(lengths == data.info.length))
    elif data.info.mean is not None:
        found |= pixels(data)
    return found


def pixels(data: SequenceDataset) -> dict[str, Any]:
    """Mean and deviation of each channel, of pixels between 0 and 1, and how many are lit."""
    counts = np.zeros((data.info.channels or 1, 256), dtype=np.int64)
    for first in range(0, len(data), 4096):
        block = data.rows.values[first : first + 4096].numpy()
        for channel in range(block.shape[-1]):
            counts[channel] += np.bincount(block[..., channel].ravel(), minlength=256)
    share, value = counts / counts.sum(1, keepdims=True), np.arange(256) / 255
    mean = share @ value
    std = np.sqrt(share @ value**2 - mean**2)
    lit = {f"above {level}": share[:, level + 1 :].sum(1).tolist() for level in (0, 25, 128)}
    return {"mean": mean.tolist(), "std": std.tolist(), **lit}


def drawn(chosen: Pathfinder, count: int) -> dict[str, Any]:
    """How hard the generator tries: pairs of paths begun until one fits, and distractors that find room."""
    made = generate(count, chosen.parameters(), 0)
    asked = chosen.parameters().distractors
    return {"pictures": count, "attempts": made.attempts.mean(), "placed": made.placed.mean(), "asked": asked}


def main() -> None:
    """Print a line for each split; with --record, keep everything."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--record", type=Path, help="write what was found and its provenance to this JSON file")
    parser.add_argument("--root", type=Path, help="the data folder; a temporary one if not given")
    options = parser.parse_args()
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as temporary:
        found = {name: entry for name in TASKS if (entry := describe_task(name, options.root or temporary))}
    if options.record:
        made_by = provenance("python benchmarks/datasets.py --root ...", time.perf_counter() - start, seed=0)
        options.record.write_text(json.dumps(found | {"provenance": made_by}, indent=1) + "\n", encoding="utf-8")


def describe_task(name: str, root: str | Path) -> dict[str, Any] | None:
    """Of its splits; nothing where its files are not there."""
    chosen, begun = task(name, **SAMPLES.get(name, {})), time.perf_counter()
    try:
        prepare(chosen, root)
    except DataError as error:
        print(f"{name:20} left out: {error}")
        return None
    seconds = time.perf_counter() - begun
    splits = {split: load(chosen, root, split) for split in SPLITS}
    info = splits["train"].info
    entry: dict[str, Any] = {
        "source": info.source,
        "parameters": SAMPLES.get(name, {}),
        "seconds to prepare": round(seconds, 2),
    }
    if isinstance(chosen, Pathfinder) and info.source == "generated":
        entry["drawn"] = drawn(chosen, DRAWN[name])
        print(f"{name:20} {json.dumps(entry['drawn'])}")
    described = {split: describe(data) for split, data in splits.items()}
    for split, values in described.items():
        print(f"{name:20} {split:6} {json.dumps(values)}")
    return entry | {"vocabulary": len(info.vocabulary) if info.vocabulary else None, "splits": described}


if __name__ == "__main__":
    main()
