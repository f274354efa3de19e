"""The figure of the ablation: accuracy and condition number against the size of the perturbation."""

from __future__ import annotations

from statistics import mean
from typing import Any

from wellposed.report._style import S4, S4D, SHADES, THIRD, WIDTH, pyplot

Data = dict[str, Any]
_KINDS = {"gamma": "S4-PTD", "random": "random", "legt": "LegT", "s4d": "S4D"}
_STYLES: dict[str, Data] = {
    "gamma": {"color": THIRD, "marker": "o", "ls": "-"},
    "random": {"color": SHADES[3], "marker": "x", "ls": ""},
    "legt": {"color": SHADES[0], "marker": "s", "ls": "", "mfc": "none"},
    "s4d": {"color": S4D, "marker": "D", "ls": ""},
}


def ablation(data: Data) -> Any:
    """Above accuracy, clean and under noise; below kappa, with a line of slope -1 and random perturbations beside.

    Of trained models, at the bottom, what training made of the largest response of any layer.
    """
    plt = pyplot()
    certified = [p for p in data["points"] if p.get("response")]
    heights = [1, 1, 1.3] + [1.2] * bool(certified)
    figure, axes = plt.subplots(
        len(heights), 1, figsize=(WIDTH, 2.24 * sum(heights)), sharex=True, height_ratios=heights
    )
    for ax, what in zip(axes, ("accuracy", "noisy"), strict=False):
        _accuracies(ax, data["points"], what)
        ax.set_ylim(0, 103)
    axes[0].set_ylabel("accuracy, %", fontsize=9)
    axes[1].set_ylabel(f"with layer noise {data['amplitude']:g}, %", fontsize=9)
    _conditions(axes[2], data)
    axes[-1].set_xlabel("size of the perturbation, ‖E‖ / ‖A‖", fontsize=9)
    axes[2].set_ylabel("κ(V)", fontsize=9)
    if data["points"]:
        axes[2].set_xscale("log")
        axes[2].set_yscale("log")
        axes[2].legend(fontsize=8, loc="upper right")
    if axes[0].get_legend_handles_labels()[0]:
        axes[0].legend(fontsize=8, ncols=2)
    if certified:
        _responses(axes[3], certified)
    return figure


def _responses(ax: Any, points: list[Data]) -> None:
    """Before training faint, after it in full; S4 is a line across."""
    for when, alpha in (("before", 0.45), ("after", 1.0)):
        values = [p | {"largest": p["response"][when]["value"]} for p in points]
        for kind in _KINDS:
            mine = _by_size([p for p in values if p["kind"] == kind], "largest")
            style = _STYLES[kind] | ({"ls": ":", "marker": ""} if when == "before" and kind == "gamma" else {})
            if mine and (when == "after" or kind in ("gamma", "s4d")):
                ax.plot(list(mine), list(mine.values()), ms=4.5, lw=1.2, alpha=alpha, **style)
        exact = [p["largest"] for p in values if p["kind"] == "s4"]
        if exact and when == "after":
            ax.axhline(mean(exact), color=S4, lw=1.2, ls="--")
    ax.set_yscale("log")
    ax.set_ylabel("largest response of a layer,\ndotted before training", fontsize=9)


def _accuracies(ax: Any, points: list[Data], what: str) -> None:
    """The mean of the seeds; S4, which perturbs nothing, is a line across."""
    for kind, label in _KINDS.items():
        mine = _by_size([p for p in points if p["kind"] == kind], what)
        if mine:
            values = [100 * value for value in mine.values()]
            ax.plot(list(mine), values, ms=4.5, lw=1.2, label=label, **_STYLES[kind])
    exact = [p[what] for p in points if p["kind"] == "s4"]
    if exact:
        ax.axhline(100 * mean(exact), color=S4, lw=1.2, ls="--", label="S4")


def _conditions(ax: Any, data: Data) -> None:
    for kind in ("gamma", "legt"):
        mine = _by_size([p for p in data["points"] if p["kind"] == kind], "kappa")
        if mine:
            ax.plot(list(mine), list(mine.values()), ms=4.5, lw=1.2, label=_KINDS[kind], **_STYLES[kind])
        if mine and kind == "gamma":
            first, start = next(iter(mine.items()))
            ends = [first, min(first * start, 1.0)]  # down to kappa = 1
            ax.plot(ends, [start, start * first / ends[1]], color="#888888", lw=0.8, ls=":", label="slope −1")
    for stable, fill in ((True, SHADES[3]), (False, "none")):
        some = [each for each in data["random"] if (each["abscissa"] < 0) == stable]
        label = "random" if stable else "random, unstable"
        if some:
            at, high = ([each[name] for each in some] for name in ("rel", "condition"))
            ax.plot(at, high, "^", color=SHADES[3], mfc=fill, ms=4, label=label)


def _by_size(points: list[Data], what: str) -> dict[float, float]:
    """Means over the seeds, smallest perturbation first."""
    sizes = sorted({p["rel"] for p in points})
    return {rel: mean(p[what] for p in points if p["rel"] == rel) for rel in sizes}
