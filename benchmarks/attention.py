"""Hierarchical attention beside full attention over the length: time and memory, forward and backward, on one core.

Time is that of the processor, so that other programs on the machine do not count; the growth with the length is what
matters. Full attention is PyTorch's own, which keeps no matrix of all pairs.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import torch

from wellposed.nn import HierarchicalAttention, LunaAttention, SelfAttention
from wellposed.records import provenance

BATCH, CHANNELS, HEADS = 1, 64, 4
LENGTHS = (1024, 2048, 4096, 8192, 16384)
CASES = {
    "full": lambda: SelfAttention(CHANNELS, HEADS, seed=0),
    "hierarchical": lambda: HierarchicalAttention(CHANNELS, HEADS, block=16, seed=0),
    "luna": lambda: LunaAttention(CHANNELS, HEADS, packed=256, seed=0),
}


def measure(case: str, length: int) -> dict[str, Any]:
    """Seconds of the second call, forward and backward, and how much the peak of memory grew."""
    torch.set_num_threads(1)
    layer = CASES[case]()
    u = torch.randn(BATCH, length, CHANNELS, requires_grad=True)
    layer(u[:, :64]).sum().backward()
    before, seconds = _peak(), math.inf
    for _ in range(2):
        start = time.process_time()
        layer(u).square().sum().backward()
        seconds = min(seconds, time.process_time() - start)
    return {"case": case, "length": length, "seconds": seconds, "bytes": _peak() - before}


def _peak() -> int:
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def measure_apart(case: str, length: int) -> dict[str, Any]:
    """The same in a process of its own, whose peak is that of the case."""
    done = subprocess.run(
        [sys.executable, __file__, "--one", case, "--length", str(length)], capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


def growth(rows: list[dict[str, Any]], case: str, key: str) -> float:
    """Exponent of the length, from the two longest."""
    a, b = [row for row in rows if row["case"] == case][-2:]
    return math.log(b[key] / a[key]) / math.log(b["length"] / a["length"])


def main() -> None:
    """Print a table, and write it where told."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--record", type=Path, help="write the rows and their provenance to this JSON file")
    parser.add_argument("--one", choices=CASES, help=argparse.SUPPRESS)
    parser.add_argument("--length", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(options.one, options.length)))
        return
    start = time.perf_counter()
    rows = [measure_apart(case, length) for case in CASES for length in LENGTHS]
    for row in rows:
        print(f"{row['case']:13} {row['length']:6} {1e3 * row['seconds']:9.1f} ms {row['bytes'] / 2**20:7.0f} MiB")
    exponents = {case: {key: growth(rows, case, key) for key in ("seconds", "bytes")} for case in CASES}
    for case, found in exponents.items():
        print(f"{case:13} time grows as length^{found['seconds']:.2f}, memory as length^{found['bytes']:.2f}")
    if options.record:
        made_by = provenance("python benchmarks/attention.py", time.perf_counter() - start, seed=0)
        record = {"rows": rows, "growth": exponents, "provenance": made_by}
        options.record.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
