"""How good a model that travels with the library is, on so many fresh sequences that chance hardly counts.

    python benchmarks/fresh.py lra-listops-s5ptd --sizes test=10000 --sweep 1000 --record results/fresh-listops.json

The test set of ListOps has 2,000 expressions: by chance alone an accuracy on it is a percentage point off. But anybody
can generate more, so here it is measured on as many as one likes, clean and under layer noise. ``--sizes`` are options
of the task: ``test`` for ListOps, ``count``, of which a tenth is for tests, for Pathfinder. ``--sweep`` besides tries
amplitudes at the usual frequency, and frequencies at the usual amplitude, on the first so many of them.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from pathlib import Path
from typing import Any

from wellposed._checks import positive_int
from wellposed._files import check_file, write_whole
from wellposed.data import SequenceDataset
from wellposed.errors import WellposedError
from wellposed.experiments._measured import rounded
from wellposed.experiments._noise_measures import AMPLITUDE, AMPLITUDES, UnderNoise
from wellposed.experiments._shipped import Shipped, shipped
from wellposed.records import provenance

SEED = 11
"""Of the fresh sequences; the quick form of ``lra`` and the other benchmarks have others."""
FREQUENCIES = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0)
"""From waves that hardly turn within a sequence to some that are faster than any mode."""


def swept(model: Shipped, data: SequenceDataset, count: int) -> dict[str, Any]:
    """Accuracies over amplitudes, and over frequencies, on the first ``count`` sequences."""
    count = min(count, len(data))
    seen = UnderNoise(model.model(), data, device="cpu", count=count)
    print(f"the first {count}: {seen.clean:.2%}", flush=True)
    rows: dict[str, list[dict[str, float]]] = {"amplitudes": [], "frequencies": []}
    settings = [("amplitudes", {"amplitude": a}) for a in AMPLITUDES]
    settings += [("frequencies", {"frequency": w}) for w in FREQUENCIES]
    for name, setting in settings:
        found = seen.layer(**setting)
        rows[name].append({**setting, "accuracy": found.accuracy, "change": found.change})
        told = " ".join(f"{key} {value:g}" for key, value in setting.items())
        print(f"{told}: {found.accuracy:.2%}, scores change by {found.change:.0%}", flush=True)
    return {"items": count, "clean": seen.clean, "amplitude": AMPLITUDE, **rows}


def _size(text: str) -> tuple[str, int]:
    name, _, value = text.partition("=")
    if not (name and value.isdecimal()):
        raise SystemExit(f"fresh: {text}: give a size as NAME=NUMBER, such as test=10000")
    return name, int(value)


def main() -> None:
    """Measure, print, and with --record keep it."""
    models = {model.folder.name: model for model in shipped()}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", nargs="?", choices=sorted(models), default=next(iter(models)))
    parser.add_argument("--sizes", nargs="*", default=[], metavar="NAME=NUMBER", help="500 sequences without it")
    parser.add_argument("--sweep", type=int, metavar="COUNT", help="sequences to try other noise on")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--record", type=Path, help="write the numbers and their provenance to this JSON file")
    options = parser.parse_args()
    try:
        _measure(models[options.name], options)
    except WellposedError as error:
        raise SystemExit(f"fresh: {error}") from None


def _measure(model: Shipped, options: argparse.Namespace) -> None:
    if options.record:
        check_file(options.record)
    start, sizes = time.perf_counter(), dict(map(_size, options.sizes))
    if options.sweep is not None:
        positive_int(options.sweep, "--sweep")
    row = model.measured(options.seed, **sizes)
    row["deviation"] = round(math.sqrt(row["clean"] * (1 - row["clean"]) / row["items"]), 6)
    print(f"{options.name}: {row['clean']:.2%} of {row['items']} fresh sequences, by chance {row['deviation']:.2%} off")
    print(f"{row['layer_noise']:.2%} under layer noise of {row['amplitude']}; {row['card']:.2%} on its own test set")
    result: dict[str, Any] = {"model": model.card, "row": row}
    if options.sweep:
        result["sweep"] = rounded(swept(model, model.fresh_data(options.seed, **sizes), options.sweep))
    if options.record:
        command = " ".join(["python benchmarks/fresh.py", *sys.argv[1:]])
        made = provenance(command, time.perf_counter() - start, seed=options.seed)
        write_whole(options.record, json.dumps({**result, "provenance": made}, indent=1) + "\n")


if __name__ == "__main__":
    main()
