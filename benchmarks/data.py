"""Ready batches a second from prepared tasks, beside PyTorch's own loader over the same items, in one run.

Image and Text are the official ones where the data folder ($WELLPOSED_DATA) holds them, else random ones of the same
sizes. Pathfinder, Path-X and ListOps are generated, a sample of each.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch.utils.data import DataLoader

from wellposed.data import Builder, Info, SequenceDataset, Task, Vocabulary, load, prepare, task
from wellposed.errors import DataError
from wellposed.nn import SequenceClassifier
from wellposed.records import provenance


@dataclass(frozen=True)
class RandomPixels(Task):
    """As large as greyscale CIFAR-10."""

    name: ClassVar[str] = "random-pixels"

    def build(self, out: Builder) -> Info:
        """45,000 pictures of noise."""
        rng = np.random.default_rng(0)
        out.write("train", rng.integers(256, size=(45_000, 1024, 1), dtype=np.uint8), rng.integers(10, size=45_000))
        classes = tuple("0123456789")
        return Info("random-pixels", "generated", 1024, channels=1, classes=classes, mean=(0.5,), std=(0.25,))


@dataclass(frozen=True)
class RandomText(Task):
    """As long as the reviews of IMDB: log-normal around 970 characters."""

    name: ClassVar[str] = "random-text"

    def build(self, out: Builder) -> Info:
        """22,500 texts of random letters."""
        rng = np.random.default_rng(0)
        lengths = np.clip(np.exp(rng.normal(np.log(970), 0.65, size=22_500)), 20, 4096).astype(int)
        words = Vocabulary.of_characters(map(chr, range(33, 33 + 131)))
        texts = [rng.integers(3, 134, size=length, dtype=np.uint8) for length in lengths]
        out.write("train", texts, rng.integers(2, size=22_500))
        return Info("random-text", "generated", 4096, vocabulary=words, classes=("no", "yes"))


def dataset(name: str, other: Task, place: str) -> SequenceDataset:
    """The official one, or one of the same size."""
    try:
        return load(name, None, "train")
    except DataError:
        return load(other, place)


def rate(batches: Iterable[Any], seconds: float) -> tuple[float, float]:
    """Items a second, and the share of steps that is padding."""
    items = steps = true = 0
    start = time.perf_counter()
    for batch in batches:
        items += len(batch.y)
        steps += batch.x.shape[0] * batch.x.shape[1]
        true += batch.x.shape[0] * batch.x.shape[1] if batch.lengths is None else int(batch.lengths.sum())
        if time.perf_counter() - start > seconds:
            break
    return items / (time.perf_counter() - start), 1 - true / steps


def measure(data: SequenceDataset, batch_size: int, device: str | None, seconds: float) -> list[dict[str, Any]]:
    """Our batches, with and without buckets, and a plain loader."""
    ways: dict[str, Callable[[], Iterable[Any]]] = {
        "batches": lambda: data.batches(batch_size, device=device),
        "without buckets": lambda: data.batches(batch_size, bucket=False, device=device),
        "not resident": lambda: data.batches(batch_size, device=device, resident=False),
        "DataLoader": lambda: DataLoader(data, batch_size, shuffle=True, collate_fn=data.collate),
    }
    if data.vocabulary is None:
        ways.pop("without buckets")
    if device is None or device == "cpu":
        ways.pop("not resident")
    rows = []
    for way, make in ways.items():
        rate(make(), seconds / 4)  # warms the cache of the file system
        speed, padding = rate(make(), seconds)
        rows.append({"task": data.info.task, "source": data.info.source, "way": way, "batch": batch_size})
        rows[-1] |= {"device": device or "cpu", "items_per_second": speed, "padding": padding}
    return rows


def measure_waiting(data: SequenceDataset, batch_size: int, device: str, steps: int = 200) -> dict[str, Any]:
    """Seconds a training step takes with new batches, and with one batch again and again: what is waited for."""
    model = SequenceClassifier(**data.sizes, layer="s4d", d_model=128, n_layers=4, seed=0, device=device)
    optimizer = torch.optim.AdamW(model.parameters())

    def run(batches: Iterable[Any]) -> float:
        start = time.perf_counter()
        for batch in batches:
            loss = torch.nn.functional.cross_entropy(batch.through(model), batch.y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        torch.cuda.synchronize()
        return (time.perf_counter() - start) / steps

    fixed = next(iter(data.batches(batch_size, device=device)))
    run(fixed for _ in range(steps))  # warms up
    row: dict[str, Any] = {"task": data.info.task, "batch": batch_size, "device": device}
    row["one batch"] = run(fixed for _ in range(steps))
    for way, resident in (("resident", True), ("not resident", False)):
        row[way] = run(islice(data.batches(batch_size, device=device, resident=resident), steps))
    return row


def measure_generation(place: str) -> list[dict[str, Any]]:
    """Seconds of a sample on all cores, and what the full set would take at that rate."""
    samples = [("pathfinder", {"count": 10_000}, 200_000), ("pathx", {"count": 512}, 200_000)]
    samples += [("listops", {"train": 18_000, "val": 1_000, "test": 1_000}, 100_000)]
    rows = []
    for name, options, full in samples:
        small = dict.fromkeys(options, 20)
        prepare(task(name, seed=1, **small), place)  # compiles
        start = time.perf_counter()
        prepare(task(name, seed=2, **options), place)
        seconds, count = time.perf_counter() - start, sum(options.values())
        row = {"task": name, "count": count, "seconds": seconds}
        rows.append(row | {"full": full, "full_minutes": seconds * full / count / 60})
    return rows


def main() -> None:
    """Print the table; with --record, keep it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else None)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--no-generation", action="store_true")
    parser.add_argument("--record", type=Path, help="write the table and its provenance to this JSON file")
    options = parser.parse_args()
    torch.set_num_threads(1)
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as place:
        pictures = dataset("image", RandomPixels(), place)
        rows = measure(pictures, 50, options.device, options.seconds)
        rows += measure(dataset("text", RandomText(), place), 32, options.device, options.seconds)
        waiting = [measure_waiting(pictures, 50, options.device)] if options.device == "cuda" else []
        made = [] if options.no_generation else measure_generation(place)
    print(f"{'task':14} {'way':16} {'batch':>5} {'items/s':>9} {'padding':>8}   times DataLoader")
    loader = {row["task"]: row["items_per_second"] for row in rows if row["way"] == "DataLoader"}
    for row in rows:
        ratio = row["items_per_second"] / loader[row["task"]]
        numbers = f"{row['items_per_second']:9.0f} {100 * row['padding']:7.1f}%"
        print(f"{row['task']:14} {row['way']:16} {row['batch']:5} {numbers}   {ratio:.1f}")
    for row in waiting:
        times = ", ".join(f"{way} {1e3 * row[way]:.2f} ms" for way in ("one batch", "resident", "not resident"))
        print(f"{row['task']:14} a training step with {times}")
    for row in made:
        sample = f"{row['count']} in {row['seconds']:.1f} s"
        print(f"{row['task']:14} {sample}, so {row['full']} in {row['full_minutes']:.1f} min")
    if options.record:
        record: dict[str, Any] = {"rows": rows, "training step": waiting, "generation": made}
        record["provenance"] = provenance("python benchmarks/data.py", time.perf_counter() - start, seed=0)
        options.record.parent.mkdir(parents=True, exist_ok=True)
        options.record.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
