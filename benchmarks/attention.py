"""The other rows of the LRA table: attention over the length, and training on 16384 steps, beside S4-PTD.

    python benchmarks/attention.py --record results/bench-attention.json
    python benchmarks/attention.py --device cuda --record results/bench-attention-h200.json
    python benchmarks/attention.py --draw docs/baselines.md

Layers are measured forward and backward, hierarchical attention, Luna and FlexConv beside full attention, which is
PyTorch's own and keeps no matrix of all pairs; what matters is the growth with the length. On a CPU one core is used,
and time is that of the processor, so that other programs do not count. On a GPU the models of the table take training
steps besides, at their published sizes and on sequences as long as Path-X's, called and replayed from a CUDA graph.
``--tiny`` tries all of it on a CPU in seconds; ``--draw`` measures nothing, and puts both records into the page.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

import baselines_page
from timing import PRECISIONS, Run, autocast, measure, multiplying
from wellposed.nn import (
    FlexConv,
    HierarchicalAttention,
    LunaAttention,
    SelfAttention,
    SequenceClassifier,
    SequenceLayer,
)
from wellposed.presets import preset, tiny
from wellposed.records import provenance

CHANNELS, HEADS = 64, 4
LENGTHS = {"cpu": (1024, 2048, 4096, 8192, 16384), "cuda": (1024, 4096, 16384, 65536), "tiny": (64, 128, 256)}
BATCHES = {"cpu": 1, "cuda": 8, "tiny": 1}
LAYERS = ("full", "hierarchical", "luna", "flexconv")
MOST_GROWTH = 1.2
"""Bar: the exponent of the length in time and memory of what is said to be linear; an FFT's logarithm included."""

STEPS, BATCH = 16384, 16
# Luna's published model for Path-X is that for Pathfinder; CCNN has none for it, so that for Pathfinder stands in.
MODELS = {
    "s4ptd": "lra-pathx-s4ptd",
    "transformer": "lra-pathx-transformer",
    "h-transformer": "lra-pathx-h-transformer",
    "luna": "lra-pathfinder-luna",
    "ccnn": "lra-pathfinder-ccnn",
    "ccnn-small": "lra-pathfinder-ccnn-small",
}

Row = dict[str, Any]


# --- layers


def make_layer(case: str, length: int) -> SequenceLayer:
    """A layer by its name here."""
    if case == "full":
        return SelfAttention(CHANNELS, HEADS, seed=0)
    if case == "hierarchical":
        return HierarchicalAttention(CHANNELS, HEADS, block=16, seed=0)
    return LunaAttention(CHANNELS, HEADS, packed=256, seed=0) if case == "luna" else FlexConv(CHANNELS, length=length)


def layer_pass(case: str, length: int, batch: int, device: str) -> Run:
    """Forward and backward, gradients of everything."""
    layer = make_layer(case, length).to(device)
    u = torch.randn(batch, length, CHANNELS, device=device, requires_grad=True)
    dy, wanted = torch.randn_like(u), [u, *layer.parameters()]
    return lambda: torch.autograd.grad(layer(u), wanted, dy)


def on_one_core(case: str, length: int, batch: int) -> Row:
    """Milliseconds of the better of two calls, and how much the peak of memory grew."""
    torch.set_num_threads(1)
    layer_pass(case, 64, batch, "cpu")()
    before, best = _peak(), math.inf
    run = layer_pass(case, length, batch, "cpu")
    for _ in range(2):
        start = time.process_time()
        run()
        best = min(best, time.process_time() - start)
    return {"graph": None, "eager": 1e3 * best, "bytes": _peak() - before}


def _peak() -> int:
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def apart(case: str, length: int) -> Row:
    """The same in a process of its own, whose peak is that of the case."""
    command = [sys.executable, __file__, "--one", case, "--length", str(length)]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def layer_rows(where: str) -> Iterator[Row]:
    """A row for each layer and length."""
    batch = BATCHES[where]
    for case in LAYERS:
        for length in LENGTHS[where]:
            if where == "cuda":
                with multiplying("high"):
                    found = measure(layer_pass(case, length, batch, where), where)
            else:
                found = apart(case, length) if where == "cpu" else on_one_core(case, length, batch)
            yield {"section": "layer", "case": case, "length": length, "batch": batch, "ours": found}


def growth(rows: list[Row]) -> dict[str, Row]:
    """Of each layer the exponents of the length in time and memory, by least squares."""
    found = {}
    for case in LAYERS:
        own = [row for row in rows if row["section"] == "layer" and row["case"] == case]
        exponents = {"time": _exponent(own, "graph") or _exponent(own, "eager"), "memory": _exponent(own, "bytes")}
        met = all((exponent or 0.0) <= MOST_GROWTH for exponent in exponents.values())
        found[case] = exponents if case == "full" else exponents | {"bar": MOST_GROWTH, "met": met}
    return found


def _exponent(rows: list[Row], key: str) -> float | None:
    """The shortest sequences are left out: they cost what any call costs."""
    known = [(math.log(row["length"]), row["ours"][key]) for row in rows[1:] if row["ours"][key]]
    if len(known) < 2:
        return None
    return statistics.linear_regression([x for x, _ in known], [math.log(y) for _, y in known]).slope


# --- models


def training_rows(device: str, small: bool) -> Iterator[Row]:
    """A row for each model and precision: a step of AdamW on sequences of one number a step, two classes."""
    batch, length = (2, 64) if small else (BATCH, STEPS)
    for case, name in MODELS.items():
        config = tiny(preset(name)) if small else preset(name)
        options = dict(config.model["layer_options"])
        if "length" in options:
            options["length"] = length
        model = {**config.model, "layer_options": options}
        for precision in PRECISIONS[1:2] if small else PRECISIONS[1:]:
            with multiplying(precision):
                made = SequenceClassifier(1, 2, seed=0, **model).to(device)
                found = measure(training_step(made, batch, length, device, precision), device)
            row = {"section": "training", "case": case, "preset": name, "length": length, "batch": batch}
            row |= {"precision": precision, "parameters": sum(p.numel() for p in made.parameters()), "ours": found}
            yield row


def training_step(model: SequenceClassifier, batch: int, length: int, device: str, precision: str) -> Run:
    """Gradients of a batch, and a step of AdamW."""
    x, y = torch.randn(batch, length, 1, device=device), torch.randint(2, (batch,), device=device)
    cuda = device == "cuda"
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3, fused=cuda, capturable=cuda)

    def run() -> None:
        optimizer.zero_grad(set_to_none=True)
        with autocast(device, precision):
            loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()

    return run


# --- what is written


def line(row: Row) -> str:
    """A row to read."""
    ours = row["ours"]
    time_ = " ".join(f"{kind} {ours[kind]:9.2f} ms" for kind in ("graph", "eager") if ours[kind] is not None)
    memory = "" if ours["bytes"] is None else f"{ours['bytes'] / 2**20:8.0f} MiB"
    what = f"{row['section']:8} {row['case']:13} {row['length']:6} x {row['batch']:<3} {row.get('precision', ''):6}"
    return f"{what} {time_} {memory} {ours.get('failed', '')}"


def main() -> None:
    """Measure, print a line as soon as there is one, and with --record keep it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--record", type=Path, help="write the rows and their provenance to this JSON file")
    parser.add_argument("--tiny", action="store_true", help="very small sizes, on the CPU, layers and models")
    parser.add_argument("--draw", type=Path, metavar="PAGE", help="fill the tables of this page from the records")
    parser.add_argument("--one", choices=LAYERS, help=argparse.SUPPRESS)
    parser.add_argument("--length", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.draw:
        print("tables:", baselines_page.fill(options.draw))
        return
    if options.one:
        print(json.dumps(on_one_core(options.one, options.length, BATCHES["cpu"])))
        return
    device = options.device
    if device == "cuda" and not torch.cuda.is_available():
        print("there is no GPU here: --device cpu measures the layers, --tiny tries everything")
        return
    start, rows = time.perf_counter(), []
    for make in (lambda: layer_rows("tiny" if options.tiny else device), lambda: training_rows(device, options.tiny)):
        if rows and device == "cpu" and not options.tiny:
            break  # models of these sizes are for a GPU
        for row in make():
            rows.append(row)
            print(line(row), flush=True)
    exponents = growth(rows)
    for case, found in exponents.items():
        print(case, "grows with the length to the power of", json.dumps(found))
    if options.record:
        command = " ".join(["python benchmarks/attention.py", *sys.argv[1:]])
        record = {"rows": rows, "growth": exponents}
        record["provenance"] = provenance(command, time.perf_counter() - start, seed=0)
        options.record.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
