"""What batches of sequences of one length do to a model with batch norm.

    python benchmarks/bucketing.py --items 4000 --steps 200 --record results/bucketing.json
    python benchmarks/bucketing.py --items 4000 --settle 100 --record results/settled.json

The ListOps model that travels with the library tells fresh sequences three times: normalised by its running statistics,
as whoever uses it does, and by those of each batch as training does, of sequences of similar length or of all lengths.
The three numbers agree for a model that does not rely on the length of its neighbours. With ``--settle`` its running
statistics are taken anew from so many training batches of either kind; with ``--steps`` it learns on for a while, from
either kind. Each time it is asked again. A step takes five seconds on two cores.
"""

from __future__ import annotations

import argparse
import copy
import json
import sys
import tempfile
import time
from itertools import islice
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

from wellposed.data import SequenceDataset, load
from wellposed.experiments._shipped import Shipped, shipped
from wellposed.nn import MaskedBatchNorm, SequenceModel, parameter_groups
from wellposed.presets import preset
from wellposed.records import provenance
from wellposed.train._settle import settle

NAME, FRESH_SEED = "lra-listops-s5ptd", 7
BATCH, WARMUP, RATE = 50, 10, 0.1
"""Sequences a batch, steps of warm-up, and the share of the preset's learning rates from which they go to zero."""
KINDS = {"alike": True, "mixed": False}
"""Of batches: sequences of similar length, or of all lengths."""


def score(model: SequenceModel, data: SequenceDataset, statistics: str) -> dict[str, Any]:
    """Accuracy and loss, normalised by running statistics or by those of batches of a kind."""
    model = copy.deepcopy(model).eval()
    if statistics != "running":
        for norm in (module for module in model.modules() if isinstance(module, MaskedBatchNorm)):
            norm.train().momentum = 0.0
    right, loss = 0, 0.0
    with torch.no_grad():
        for batch in data.batches(BATCH, seed=1, bucket=KINDS.get(statistics, True)):
            out = batch.through(model)
            right += int((out.argmax(-1) == batch.y).sum())
            loss += F.cross_entropy(out, batch.y, reduction="sum").item()
    return {"statistics": statistics, "accuracy": right / len(data), "loss": loss / len(data), "items": len(data)}


def learn_on(model: SequenceModel, data: SequenceDataset, kind: str, steps: int) -> SequenceModel:
    """A copy after so many steps with the preset's optimiser."""
    model, config = copy.deepcopy(model).train(), preset(NAME).optimizer
    assert config.ssm_lr is not None
    rates = {"lr": RATE * config.lr, "ssm_lr": RATE * config.ssm_lr, "weight_decay": config.weight_decay}
    groups = parameter_groups(model, **rates, decay=config.decay, ssm=config.ssm)
    optimizer = torch.optim.AdamW(groups)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / (WARMUP + 1), 1 - step / steps)
    )
    for _, batch in zip(range(steps), data.batches(BATCH, seed=5, bucket=KINDS[kind]), strict=False):
        optimizer.zero_grad()
        F.cross_entropy(batch.through(model), batch.y).backward()
        optimizer.step()
        schedule.step()
    return model


def subject() -> Shipped:
    """The model that travels."""
    return next(one for one in shipped() if one.folder.name == NAME)


def measure(options: argparse.Namespace, folder: Path) -> list[dict[str, Any]]:
    """All rows, printed as they come."""
    one = subject()
    model = one.model()
    fresh = {"source": "generated", "seed": FRESH_SEED, "train": 1, "val": 1, "test": options.items}
    test = load("listops", folder, "test", **fresh)
    rows = []
    for statistics in ("running", *KINDS):
        rows.append({"steps": 0} | score(model, test, statistics))
        print("as it is, {statistics} statistics: {accuracy:.2%}, loss {loss:.4f}".format(**rows[-1]), flush=True)
    train = load("listops", folder, "train", **({"train": 500, "val": 1, "test": 1} if options.tiny else {}))
    for kind in KINDS if options.settle else ():
        settled = copy.deepcopy(model).eval()
        settle(settled, islice(train.batches(BATCH, seed=5, bucket=KINDS[kind]), options.settle))
        rows.append({"batches": kind, "settled": options.settle, "steps": 0} | score(settled, test, "running"))
        print(
            "statistics of {settled} {batches} batches: {accuracy:.2%}, loss {loss:.4f}".format(**rows[-1]), flush=True
        )
    for kind in KINDS if options.steps else ():
        learnt = learn_on(model, train, kind, options.steps)
        rows.append({"batches": kind, "steps": options.steps} | score(learnt, test, "running"))
        print("{steps} steps of {batches} batches: {accuracy:.2%}, loss {loss:.4f}".format(**rows[-1]), flush=True)
    return rows


def main() -> None:
    """Measure, print, and with --record keep it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=200, help="fresh sequences (200)")
    parser.add_argument("--steps", type=int, default=0, help="of learning on, with either kind of batches (none)")
    parser.add_argument("--settle", type=int, default=0, help="batches to take statistics anew from (none)")
    parser.add_argument("--data", type=Path, help="the data folder; unless given, sequences are generated anew")
    parser.add_argument("--record", type=Path, help="write the rows and their provenance to this JSON file")
    parser.add_argument("--tiny", action="store_true", help="learn from few sequences, to try it in a minute")
    options = parser.parse_args()
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        rows = measure(options, options.data or Path(folder))
    if options.record:
        command = " ".join(["python benchmarks/bucketing.py", *sys.argv[1:]])
        made = provenance(command, time.perf_counter() - start, seed=0)
        record = {"model": NAME, "trained": subject().card, "rows": rows, "provenance": made}
        options.record.parent.mkdir(parents=True, exist_ok=True)
        options.record.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
