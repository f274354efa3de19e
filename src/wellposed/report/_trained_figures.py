"""Figures of the experiments on trained models; the quick form and the full one are drawn alike."""

from __future__ import annotations

from statistics import median
from typing import Any

from wellposed.report._style import S4, S4D, THIRD, WIDTH, pyplot

Data = dict[str, Any]
_COLOURS = {"s4": S4, "s4d": S4D, "s4ptd": THIRD, "s5": S4D, "s5ptd": THIRD}
_NAMES = {"s4": "S4", "s4d": "S4D", "s4ptd": "S4-PTD", "s5": "S5", "s5ptd": "S5-PTD"}
_KEPT_BACK = {"extrap": (80, 100), "interp": (40, 60)}
_PROBLEMS = {"extrap": "extrapolation", "interp": "interpolation"}


def failure_modes(data: Data) -> Any:
    """The error over the plane of frequencies and amplitudes for each model, and below it the error over epochs."""
    plt = pyplot()
    figure = plt.figure(figsize=(WIDTH, 6.2))
    above, below = figure.subfigures(2, 1, height_ratios=[1.25, 1])
    planes, drawn = above.subplots(2, 3), None
    for row, problem in enumerate(_PROBLEMS):
        for column, layer in enumerate(("s4", "s4d", "s4ptd")):
            ax = planes[row, column]
            found = [m for m in data["maps"] if (m["problem"], m["layer"]) == (problem, layer)]
            drawn = _plane(ax, found[0]) if found else drawn
            _frame(ax, problem, layer, row, column)
    if drawn is not None:
        bar = above.colorbar(drawn, ax=planes, orientation="horizontal", aspect=40, pad=0.03)
        bar.set_label("absolute error of the amplitude", fontsize=9)
    for ax, problem in zip(below.subplots(1, 2), _PROBLEMS, strict=True):
        (_curves if data["curves"] else _ends)(ax, data, problem)
        if any(error["problem"] == problem for error in data["errors"]):
            ax.set_yscale("log")
        ax.set_title(_PROBLEMS[problem], loc="left")
        if problem == "extrap":
            ax.set_ylabel("mean square error", fontsize=9)
        if problem == "extrap":
            ax.legend(fontsize=8)
    return figure


def _plane(ax: Any, found: Data) -> Any:
    """Errors up to 1 by colour."""
    from matplotlib.colors import LogNorm

    error = [[max(abs(p - A), 1e-3) for p, A in zip(row, found["A"], strict=True)] for row in found["predicted"]]
    columns = list(zip(*error, strict=True))
    return ax.pcolormesh(found["s"], found["A"], columns, cmap="magma", norm=LogNorm(3e-3, 1.0), rasterized=True)


def _frame(ax: Any, problem: str, layer: str, row: int, column: int) -> None:
    ax.grid(False)
    for edge in _KEPT_BACK[problem]:
        ax.axvline(edge, color="white", lw=0.8, ls=":")
    ax.set(xticks=[0, 40, 80], yticks=[0, 1], xlim=(0, 100), ylim=(0, 1))
    ax.tick_params(labelleft=column == 0, labelbottom=row == 1)
    if row == 0:
        ax.set_title(_NAMES[layer], loc="left")
    if column == 0:
        ax.set_ylabel(f"{_PROBLEMS[problem]}\namplitude", fontsize=9)
    if row == 1:
        ax.set_xlabel("frequency", fontsize=9)


def _curves(ax: Any, data: Data, problem: str) -> None:
    """Unseen frequencies in full, seen ones dashed: the median over the seeds, and each seed faintly."""
    for layer in ("s4", "s4d", "s4ptd"):
        runs = [c for c in data["curves"] if (c["problem"], c["layer"]) == (problem, layer)]
        if not runs:
            continue
        epochs = runs[0]["epochs"]
        for name, style in (("unseen", "-"), ("seen", ":")):
            middle = [median(values) for values in zip(*(run[name] for run in runs), strict=True)]
            label = _NAMES[layer] if name == "unseen" else None
            ax.plot(epochs, middle, style, color=_COLOURS[layer], lw=1.4, label=label)
        for run in runs:
            ax.plot(epochs, run["unseen"], color=_COLOURS[layer], lw=0.5, alpha=0.5)
    ax.set_xlabel("epoch (dotted: seen)", fontsize=9)


def _ends(ax: Any, data: Data, problem: str) -> None:
    """Without epochs: a point a seed, for seen and unseen frequencies."""
    for place, layer in enumerate(("s4", "s4d", "s4ptd")):
        rows = [e for e in data["errors"] if (e["problem"], e["layer"]) == (problem, layer)]
        for side, name in ((-0.15, "seen"), (0.15, "unseen")):
            marker, fill = ("o", "none") if name == "seen" else ("o", _COLOURS[layer])
            at = [place + side] * len(rows)
            label = f"{name} frequencies" if place == 1 else None
            ax.plot(at, [r[name] for r in rows], marker, mec=_COLOURS[layer], mfc=fill, ms=5, ls="", label=label)
    ax.set_xticks(range(3), [_NAMES[layer] for layer in ("s4", "s4d", "s4ptd")], fontsize=9)
