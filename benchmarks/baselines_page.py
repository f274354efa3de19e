"""The tables of docs/baselines.md, from the records of ``attention.py``: ``attention.py --draw docs/baselines.md``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from page import line, number, write

RESULTS = Path(__file__).parents[1] / "results"
LAYERS = {
    "full": "full attention",
    "hierarchical": "hierarchical",
    "luna": "Luna, 256 rows",
    "flexconv": "FlexConv",
}
MODELS = {
    "s4ptd": "S4-PTD",
    "transformer": "Transformer",
    "h-transformer": "H-Transformer-1D",
    "luna": "Luna-256",
    "ccnn": "CCNN, 6 of 380",
    "ccnn-small": "CCNN, 4 of 140",
}

Record = dict[str, Any]


def fill(page: Path, results: Path = RESULTS) -> Path:
    """Put both records' tables into the page."""
    cpu, gpu = (_read(results / name) for name in ("bench-attention.json", "bench-attention-h200.json"))
    return write(page, {"one core": layers(cpu), "one GPU": layers(gpu), "training": training(gpu)})


def _read(record: Path) -> Record:
    return json.loads(record.read_text(encoding="utf-8"))


def layers(record: Record) -> Iterator[str]:
    """Milliseconds over the length, and how they grow; bold where that misses its bar."""
    yield line("ms, steps", *LAYERS.values())
    yield "|---|---|---|---|---|"
    rows = {(row["case"], row["length"]): row["ours"] for row in record["rows"] if row["section"] == "layer"}
    for length in dict.fromkeys(length for _, length in rows):
        times = [rows[case, length]["graph"] or rows[case, length]["eager"] for case in LAYERS]
        yield line(str(length), *map(number, times))
    for what in ("time", "memory"):
        found = [record["growth"][case] for case in LAYERS]
        yield line(f"{what} as length to the", *(_barred(one[what], one.get("bar")) for one in found))


def _barred(exponent: float, bar: float | None) -> str:
    return f"{exponent:.2f}" if bar is None or exponent <= bar else f"**{exponent:.2f}**"


def training(record: Record) -> Iterator[str]:
    """A step of each model: milliseconds and memory in both precisions."""
    yield line("a step of training", "parameters", "ms, tf32", "ms, bf16", "GiB, tf32", "GiB, bf16")
    yield "|---|---|---|---|---|---|"
    rows = {(row["case"], row["precision"]): row for row in record["rows"] if row["section"] == "training"}
    for case, name in MODELS.items():
        both = [rows[case, precision] for precision in ("high", "bf16")]
        times, sizes = ([row["ours"][key] for row in both] for key in ("graph", "bytes"))
        count = f"{both[0]['parameters'] / 1e6:.2f} M"
        yield line(name, count, *map(number, times), *(number(size / 2**30) for size in sizes))
