"""The figure of the ablation: accuracy, condition number and response against the size of the perturbation."""

from __future__ import annotations

import math
from statistics import mean
from typing import Any

from wellposed.report._style import S4, S4D, SHADES, THIRD, WIDTH, pyplot

Data = dict[str, Any]
_KINDS = {
    "gamma": "S4-PTD",
    "random": "random",
    "random-unit": "random, unit vectors",
    "gamma-optimal": "S4-PTD, scaled vectors",
    "legt": "LegT",
    "s4d": "S4D",
}
_STYLES: dict[str, Data] = {
    "gamma": {"color": THIRD, "marker": "o", "ls": "-"},
    "random": {"color": SHADES[3], "marker": "x", "ls": ""},
    "random-unit": {"color": SHADES[3], "marker": "+", "ls": ""},
    "gamma-optimal": {"color": THIRD, "marker": "^", "ls": ""},
    "legt": {"color": SHADES[0], "marker": "s", "ls": ""},
    "s4d": {"color": S4D, "marker": "D", "ls": ""},
}
_PAPERS_BEST = (0.01, 1.0)


def ablation(data: Data) -> Any:
    """Accuracy, clean and under noise; condition numbers; of trained models what training made of their responses."""
    plt = pyplot()
    points = data["points"]
    certified = [p for p in points if p.get("response")]
    heights = [1.6, 1.3] + [1.4] * bool(certified)
    size = WIDTH, 2.2 * sum(heights) + 0.5
    figure, axes = plt.subplots(len(heights), 1, figsize=size, sharex=True, height_ratios=heights)
    _accuracies(axes[0], points)
    axes[0].set_ylabel(f"accuracy, %\nhollow: layer noise of {data['amplitude']:g}", fontsize=9)
    if data.get("epochs") != data.get("usual_epochs"):
        axes[0].set_title(f"{data['epochs']} of {data['usual_epochs']} epochs", fontsize=9, loc="left")
    _conditions(axes[1], points, data["random"])
    axes[1].set_ylabel("κ(V)", fontsize=9)
    if certified:
        _responses(axes[2], certified)
        axes[2].set_ylabel("largest response of a layer", fontsize=9)
    axes[-1].set_xlabel("size of the perturbation, ‖E‖ / ‖A‖", fontsize=9)
    if points:
        axes[0].set_xscale("log")
        axes[1].set_yscale("log")
        for ax in axes:
            ax.axvspan(*_PAPERS_BEST, color=THIRD, alpha=0.12, lw=0)
        axes[0].legend(fontsize=8, ncols=5, loc="lower center", bbox_to_anchor=(0.5, 1.06), columnspacing=0.9)
        axes[0].text(0.1, 0.02, "paper: best", fontsize=8, ha="center", transform=axes[0].get_xaxis_transform())
    return figure


def _accuracies(ax: Any, points: list[Data]) -> None:
    """The mean of the seeds; S4, which perturbs nothing, is a line across."""
    for kind, label in _KINDS.items():
        style = _STYLES[kind]
        for what in ("noisy", "accuracy"):
            at, values = _of(points, kind, lambda p, what=what: 100 * p[what])
            look = style | ({"ls": "", "mfc": "none"} if what == "noisy" else {"label": label})
            if at and not (what == "noisy" and style["marker"] in "x+"):  # a cross has no inside
                ax.plot(at, values, ms=5 if what == "noisy" else 4, lw=1.2, **look)
    exact = [p["accuracy"] for p in points if p["kind"] == "s4"]
    if exact:
        ax.axhline(100 * mean(exact), color=S4, lw=1.2, ls="--", label="S4")


def _conditions(ax: Any, points: list[Data], random: list[Data]) -> None:
    """Of unit eigenvectors, with a line of slope -1; random perturbations of all sizes, faint where unstable."""
    for kind in ("gamma", "legt"):
        at, values = _of(points, kind, lambda p: p["kappa"])
        if at:
            ax.plot(at, values, ms=4, lw=1.2, **_STYLES[kind])
        if at and kind == "gamma":
            end = min(at[0] * values[0], 1.0)  # down to kappa = 1
            ax.plot([at[0], end], [values[0], values[0] * at[0] / end], color="#888888", lw=0.8, ls=":")
            middle = math.sqrt(at[0] * end)
            ax.annotate(
                "slope −1", (middle, values[0] * at[0] / middle), (-44, -8), textcoords="offset points", fontsize=8
            )
    for stable in (True, False):
        some = [each for each in random if (each["abscissa"] < 0) == stable]
        at, values = [each["rel"] for each in some], [each.get("kappa", each["condition"]) for each in some]
        ax.plot(at, values, ms=4, alpha=1.0 if stable else 0.4, **_STYLES["random"])


def _responses(ax: Any, points: list[Data]) -> None:
    """After training; before it S4-PTD's is dotted and S4D's faint."""
    for kind, style in _STYLES.items():
        for when in ("before", "after"):
            at, values = _of(points, kind, lambda p, when=when: p["response"][when]["value"])
            look = style | ({"ls": ":", "marker": "", "alpha": 0.7} if when == "before" and kind == "gamma" else {})
            look |= {"alpha": 0.4} if when == "before" and kind == "s4d" else {}
            if at and (when == "after" or kind in ("gamma", "s4d")):
                ax.plot(at, values, ms=4, lw=1.2, **look)
            if at and kind == "gamma":
                words, shift = ("after training", (10, -4)) if when == "after" else ("before training", (0, -12))
                ax.annotate(words, (at[0], values[0]), shift, textcoords="offset points", fontsize=8)
    exact = [p["response"]["after"]["value"] for p in points if p["kind"] == "s4"]
    if exact:
        ax.axhline(mean(exact), color=S4, lw=1.2, ls="--")
    ax.set_yscale("log")
    ax.set_ylim(bottom=1.0)


def _of(points: list[Data], kind: str, value: Any) -> tuple[list[float], list[float]]:
    """Sizes and means over the seeds of each start of a kind, smallest perturbation first."""
    starts: dict[str, list[Data]] = {}
    for p in points:
        if p["kind"] == kind:
            starts.setdefault(p["name"], []).append(p)
    found = sorted((mean(p["rel"] for p in some), mean(value(p) for p in some)) for some in starts.values())
    return [rel for rel, _ in found], [each for _, each in found]
