"""The figure of the Long Range Arena: what was published beside what we measured."""

from __future__ import annotations

from typing import Any

from wellposed.report._style import S4, S4D, SHADES, THIRD, WIDTH, pyplot

Data = dict[str, Any]
_TASKS = ("listops", "text", "retrieval", "image", "pathfinder", "pathx")
_TITLES = ("ListOps", "Text", "Retrieval", "Image", "Pathfinder", "Path-X")
_LAYERS = ("s4", "s4d", "s4ptd", "s5", "s5ptd")
_NAMES = {"s4": "S4", "s4d": "S4D", "s4ptd": "S4-PTD", "s5": "S5", "s5ptd": "S5-PTD"}
_COLOURS = {"s4": S4, "s4d": S4D, "s4ptd": THIRD, "s5": SHADES[3], "s5ptd": SHADES[2]}


def lra(data: Data) -> Any:
    """A row a task and a colour a model: a ring where ours is published, a dot for every seed of ours."""
    plt = pyplot()
    figure, ax = plt.subplots(figsize=(WIDTH, 4.6))
    for name, value in data["published"].items():
        y, layer = _place(name)
        if layer:
            ax.plot([value], [y], "o", ms=7, mfc="none", mew=0.9, color=_COLOURS[layer])
    seen = set()
    for row in data["rows"]:
        y, layer = _place(row["preset"].removeprefix("tiny-"))
        if layer:
            label = None if layer in seen else _NAMES[layer]
            seen.add(layer)
            ax.plot(row["accuracies"], [y] * len(row["accuracies"]), "o", ms=3.5, color=_COLOURS[layer], label=label)
    ax.set_yticks(range(len(_TASKS)), _TITLES)
    ax.set_ylim(len(_TASKS) - 0.4, -0.6)
    ax.set_xlabel("test accuracy, % (rings: published)", fontsize=9)
    for layer in _LAYERS:
        if layer not in seen:
            ax.plot([], [], "o", ms=7, mfc="none", mew=0.9, color=_COLOURS[layer], label=f"{_NAMES[layer]}, published")
    ax.legend(fontsize=8, loc="lower left")
    return figure


def _place(preset: str) -> tuple[float, str]:
    """The height of a model's row, and its layer; no layer for a preset that is not drawn."""
    task, _, layer = preset.removeprefix("lra-").partition("-")
    if task not in _TASKS or layer not in _LAYERS:
        return 0.0, ""
    return _TASKS.index(task) + 0.13 * (_LAYERS.index(layer) - 2), layer
