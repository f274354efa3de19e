"""The table of the Long Range Arena, from what is known of its runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import mean
from typing import Any

from wellposed.presets import PRESETS
from wellposed.records import Claim

TASKS = ("listops", "text", "retrieval", "image", "pathfinder", "pathx")
NAMES = {
    "transformer": "Transformer",
    "luna": "Luna-256",
    "h-transformer": "H-Transformer-1D",
    "ccnn": "CCNN",
    "ccnn-small": "CCNN, small",
    "s4": "S4",
    "liquid-s4": "Liquid-S4",
    "s4d": "S4D",
    "s4ptd": "S4-PTD",
    "s5": "S5",
    "s5ptd": "S5-PTD",
}
PUBLISHED = {name: one.published for name, one in PRESETS.items() if one.published is not None}
"""In per cent, by preset."""
_BARS = {
    "lra-listops-s4ptd": 59.5,
    "lra-listops-s5ptd": 61.5,
    "lra-text-s4ptd": 87.0,
    "lra-text-s5ptd": 88.5,
}
_BARS_OF_THE_BETTER = {"image": 87.0, "pathfinder": 94.0}
_SAME_TASK = ("source", "seed", "count")
"""Options of a task that leave it what it is: where its sequences come from, and how many pictures there are."""
OF_THE_PAPER = ("s4ptd", "s5ptd")


def plain_name(name: str) -> str:
    """Of a preset, tiny or not."""
    return name.removeprefix("tiny-")


def table_rows(runs: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Finished runs by preset and what was changed of it, seeds together where all else is the same."""
    found: dict[tuple[str, str, str], dict[int, dict[str, Any]]] = {}
    for run in runs:
        if run["finished"] and plain_name(run["preset"]) in PRESETS and "accuracy" in run["test"]:
            found.setdefault((run["preset"], run["changed"], run.get("config", "")), {}).setdefault(run["seed"], run)
    places = list(PRESETS)
    order = sorted(found, key=lambda key: (places.index(plain_name(key[0])), *key[1:]))
    return [_row([*found[key].values()]) for key in order]  # a run made twice is no second seed


def _row(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Accuracies in per cent. A task that stands in for another is not compared with what is published of that."""
    first, name = runs[0], plain_name(runs[0]["preset"])
    accuracies = [round(100 * run["test"]["accuracy"], 4) for run in runs]
    stands_in = is_another_task(first["changed"]) or first["preset"] != name
    noisy = [run["noise"] for run in runs if "noise" in run]
    return {
        "preset": first["preset"],
        "changed": first["changed"],
        "published": None if stands_in else PRESETS[name].published,
        "accuracy": round(mean(accuracies), 4),
        "accuracies": accuracies,
        "seeds": [run["seed"] for run in runs],
        "epochs": max(run["epochs"] for run in runs),
        "best_epochs": [run["best_epoch"] for run in runs],
        "device_minutes": round(mean(run["device_minutes"] for run in runs), 2),
        "parameters": first["parameters"],
        "lost_to_noise": round(mean(100 * (each["clean"] - each["layer"]) for each in noisy), 4) if noisy else None,
        "hardware": sorted({run["hardware"] for run in runs}),
    }


def is_another_task(changed: str) -> bool:
    """Whether what was changed of a preset makes it another task, or an easier one."""
    names = [each.partition(" = ")[0] for each in changed.split(", ")]
    same = {f"data.options.{name}" for name in _SAME_TASK}
    return any(name == "data.task" or (name.startswith("data.options.") and name not in same) for name in names)


def as_text(rows: Sequence[dict[str, Any]]) -> dict[str, list[Any]]:
    """A line for each."""
    head = ["preset", "paper", "ours", "seeds", "epochs", "minutes", "parameters", "lost to noise", "changed"]
    return {"head": head, "rows": [_line(row) for row in rows]}


def with_spread(row: dict[str, Any]) -> str:
    """The accuracy, and from where to where seeds have it."""
    spread = f" ({min(row['accuracies']):.2f} to {max(row['accuracies']):.2f})" if len(row["seeds"]) > 1 else ""
    return f"{row['accuracy']:.2f}{spread}"


def _line(row: dict[str, Any]) -> list[str]:
    return [
        row["preset"],
        "-" if row["published"] is None else f"{row['published']:.2f}",
        with_spread(row),
        str(len(row["seeds"])),
        str(row["epochs"]),
        f"{row['device_minutes']:.1f}",
        f"{row['parameters']:,}",
        "-" if row["lost_to_noise"] is None else f"{row['lost_to_noise']:.1f}",
        row["changed"],
    ]


def in_words(rows: Sequence[dict[str, Any]]) -> str:
    """The same as a sentence."""
    words = []
    for row in rows:
        _, task, name = plain_name(row["preset"]).split("-", 2)
        layer = name.removesuffix("-small")
        beside = "" if row["published"] is None else f" (published {row['published']:.2f})"
        if is_another_task(row["changed"]):
            beside = f" ({row['changed']})"
        words.append(
            f"{'small ' if layer != name else ''}{NAMES.get(layer, layer)} on {task} {with_spread(row)} %{beside}"
        )
    return "; ".join(words) + ". " if words else ""


def best_rows(rows: Sequence[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """One for each preset, by its name; runs that follow the preset go before others."""
    best: dict[str, dict[str, Any]] = {}
    for row in sorted(rows, key=lambda row: (not row["changed"], row["accuracy"])):
        best[plain_name(row["preset"])] = row
    return best


def claims_of(rows: Sequence[dict[str, Any]]) -> list[Claim]:
    """The bars, on what has been trained."""
    best = best_rows([row for row in rows if row["published"] is not None])
    claims = [_claim(best[name], bar) for name, bar in _BARS.items() if name in best]
    for task, bar in _BARS_OF_THE_BETTER.items():
        some = [best[name] for layer in OF_THE_PAPER if (name := f"lra-{task}-{layer}") in best]
        if some:
            claims.append(_claim(max(some, key=lambda row: row["accuracy"]), bar))
    return claims


def _claim(row: dict[str, Any], bar: float) -> Claim:
    changed = f", {row['changed']}" if row["changed"] else ""
    text = f"test accuracy of {row['preset']}, {row['epochs']} epochs{changed}, mean of {len(row['seeds'])} seeds"
    published = PRESETS[plain_name(row["preset"])].published
    return Claim(text, row["accuracy"], bar, 0.0, f"{published:.2f}", kind="at least")
