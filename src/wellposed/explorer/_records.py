"""What the page shows beside its own computations: the paper's table, and models that were trained."""

from __future__ import annotations

from pathlib import Path
from statistics import mean
from typing import Any

from wellposed.experiments._paper_tables import CONDITION, PERTURBATION
from wellposed.records import load_record

Data = dict[str, Any]
_LAYERS = {"s4d": "S4D", "s4ptd": "S4-PTD", "s5": "S5", "s5ptd": "S5-PTD"}


def tradeoff(folder: Path | None) -> Data:
    """By number of states, kappa against the size of E: the paper's, and what the optimiser found where recorded."""
    found: Data = {
        str(n): {"paper": [list(PERTURBATION[n]), list(CONDITION[n])], "optimized": [[], []]} for n in CONDITION
    }
    path = folder / "pareto.json" if folder else None
    if path and path.exists():
        for row in load_record(path).data["rows"]:
            sizes, values = found[str(row["n"])]["optimized"]
            sizes.append(row["eps"])
            values.append(row["optimized"])
    return found


def trained(folder: Path | None) -> list[Data]:
    """Accuracy over the frequency of the noise: of each layer the seeds and their mean; the full form first."""
    names = ("robustness-full", "robustness") if folder else ()
    records = [load_record(folder / f"{name}.json") for name in names if folder and (folder / f"{name}.json").exists()]
    return [shown for shown in map(_curves, records) if shown["curves"]]


def _curves(record: Any) -> Data:
    data = record.data
    main = [m for m in data["models"] if m["learns"] != "all" and m["scale"] == "s4" and m.get("spectrum")]
    curves = []
    for layer, name in _LAYERS.items():
        mine = [m["spectrum"] for m in main if m["layer"] == layer]
        if mine:
            same = [some for some in mine if some["frequency"] == mine[0]["frequency"]]
            seeds = [some["accuracy"] for some in same]
            accuracy = [mean(values) for values in zip(*seeds, strict=True)]
            curves.append({"name": name, "frequency": mine[0]["frequency"], "accuracy": accuracy, "seeds": seeds})
    form = "trained at full size" if data["form"] == "full" else "quick form: layers as they start, a fitted read-out"
    return {
        "name": record.experiment,
        "form": form,
        "amplitude": data["amplitude"],
        "sample": data.get("sample"),
        "spike": data["spike"],
        "curves": curves,
    }
