"""Figures of what noise does: to accuracy, and at worst to layers."""

from __future__ import annotations

from collections.abc import Callable
from statistics import mean
from typing import Any

from wellposed.report._style import S4, S4D, THIRD, WIDTH, pyplot

Data = dict[str, Any]
Model = dict[str, Any]
_PAIRS = (("s4d", "s4ptd"), ("s5", "s5ptd"))
_NAMES = {"s4d": "S4D", "s4ptd": "S4-PTD", "s5": "S5", "s5ptd": "S5-PTD"}
_COLOURS = {"s4d": S4D, "s4ptd": THIRD, "s5": S4D, "s5ptd": THIRD}
_HEIGHT = 2.1
"""Of a row of panels, in inches."""


def robustness(data: Data) -> Any:
    """A column for each pair of models: over frequencies, over amplitudes, over epochs, as far as each goes."""
    plt = pyplot()
    main = [m for m in data["models"] if m["learns"] != "all" and m["scale"] == "s4"]
    pairs = [pair for pair in _PAIRS if any(m["layer"] in pair for m in main)] or [_PAIRS[0]]
    rows = [_accuracy_over_frequency, _change_over_frequency, _accuracy_over_amplitude]
    rows += [_accuracy_over_epochs] if any(m.get("epochs") for m in main) else []
    figure, axes = plt.subplots(
        len(rows), len(pairs), figsize=(WIDTH, _HEIGHT * len(rows)), squeeze=False, sharey="row", sharex="row"
    )
    for k, draw in enumerate(rows):
        for ax, pair in zip(axes[k], pairs, strict=True):
            for layer in pair:
                mine = [m for m in main if m["layer"] == layer]
                draw(ax, data, mine, {"color": _COLOURS[layer], "label": _NAMES[layer]})
            _finish(ax, draw, data, first=ax is axes[k][0])
    for ax, pair in zip(axes[0], pairs, strict=True):
        ax.set_title(f"{_NAMES[pair[0]]} and {_NAMES[pair[1]]}", loc="left")
        if ax.get_legend_handles_labels()[0]:
            ax.legend(fontsize=9, loc="lower left")
    return figure


def _finish(ax: Any, draw: Callable[..., None], data: Data, *, first: bool) -> None:
    x, y, logarithmic = _AXES[draw]
    x = x if data["form"] == "full" else x.partition(" (")[0]
    ax.set_xlabel(x, fontsize=9)
    if first:
        ax.set_ylabel(y, fontsize=9)
    if ax.lines and "log x" in logarithmic:
        ax.set_xscale("log")
    if ax.lines and "log y" in logarithmic:
        ax.set_yscale("log")
        _plain(ax.yaxis)
    if "accuracy" in y:
        ax.set_ylim(0, 103)
    if draw is not _accuracy_over_epochs and "frequency" in x:
        ax.axvline(data["spike"], color="#888888", lw=0.7, ls=":")


def _per_cent(values: list[float]) -> list[float]:
    return [100 * value for value in values]


def _mean(models: list[Model], name: str, what: str) -> list[float]:
    """Over the seeds that have it."""
    return [mean(values) for values in zip(*(m[name][what] for m in models), strict=True)]


def _accuracy_over_frequency(ax: Any, data: Data, models: list[Model], style: Data) -> None:
    """The mean of the seeds, each of them faintly."""
    have = [m for m in models if m.get("spectrum")]
    if not have:
        return
    at = have[0]["spectrum"]["frequency"]
    ax.plot(at, _per_cent(_mean(have, "spectrum", "accuracy")), lw=1.2, **style)
    for m in have if len(have) > 1 else ():
        ax.plot(at, _per_cent(m["spectrum"]["accuracy"]), lw=0.6, alpha=0.5, color=style["color"])


def _change_over_frequency(ax: Any, data: Data, models: list[Model], style: Data) -> None:
    """In full after training, dotted before."""
    have = [m for m in models if m.get("spectrum")]
    if not have:
        return
    at = have[0]["spectrum"]["frequency"]
    ax.plot(at, _mean(have, "spectrum", "change"), lw=1.2, **style)
    if "change_before" in have[0]["spectrum"]:
        ax.plot(at, _mean(have, "spectrum", "change_before"), ":", lw=1.2, color=style["color"])


def _accuracy_over_amplitude(ax: Any, data: Data, models: list[Model], style: Data) -> None:
    """A line for the mean of the seeds that were swept, points for all."""
    have = [m for m in models if m.get("amplitudes")]
    if not have:
        return
    longest = max(len(m["amplitudes"]["amplitude"]) for m in have)
    swept = [m for m in have if len(m["amplitudes"]["amplitude"]) == longest]
    ax.plot(swept[0]["amplitudes"]["amplitude"], _per_cent(_mean(swept, "amplitudes", "accuracy")), lw=1.2, **style)
    for m in have:
        ax.plot(m["amplitudes"]["amplitude"], _per_cent(m["amplitudes"]["accuracy"]), "o", ms=3, color=style["color"])


def _accuracy_over_epochs(ax: Any, data: Data, models: list[Model], style: Data) -> None:
    """Clean in full, noise on the input dashed, on the layers dotted; in training faintly."""
    have = [m for m in models if m.get("epochs")]
    have = [m for m in have if m["epochs"]["epoch"] == have[0]["epochs"]["epoch"]]
    for name, line in (("clean", "-"), ("input", "--"), ("layer", ":"), ("train", "-")):
        if have:
            at, faint = have[0]["epochs"]["epoch"], {"lw": 0.7, "alpha": 0.6} if name == "train" else {"lw": 1.3}
            ax.plot(at, _per_cent(_mean(have, "epochs", name)), line, color=style["color"], **faint)


_AXES: dict[Callable[..., None], tuple[str, str, str]] = {
    _accuracy_over_frequency: ("frequency of the layer noise", "accuracy, %", "log x"),
    _change_over_frequency: ("frequency (·· before training)", "change of scores", "log x, log y"),
    _accuracy_over_amplitude: ("amplitude at the last spike", "accuracy, %", "log x"),
    _accuracy_over_epochs: ("epoch (-- input noise, ·· layer)", "accuracy, %", ""),
}


def certificates(data: Data) -> Any:
    """The largest response over frequencies of one run of each kind, and the certified supremum of all of them."""
    plt = pyplot()
    figure, (top, bottom) = plt.subplots(2, 1, figsize=(WIDTH, 6.4), height_ratios=[1, 1.2])
    for layer, model in _most_trained(data["models"]).items():
        style = {"color": _COLOURS[layer], "lw": 1.1}
        for when, line in (("before", ":"), ("after", "-")):
            curve = model[when]["curve"]
            label = _NAMES[layer] if when == "after" else None
            top.loglog(curve["cycles"], curve["largest"], line, label=label, **style)
    top.set(xlabel="cycles a step (·· before training)", ylabel="largest response of any channel")
    for layer, mark in (("s4", "s"), ("s4d", "o"), ("s4ptd", "o"), ("s5", "^"), ("s5ptd", "^")):
        mine = [m for m in data["models"] if m["layer"] == layer]
        points = [tuple(max(peak["value"] for peak in m[when]["layers"]) for when in ("before", "after")) for m in mine]
        if points:
            label = _NAMES.get(layer, "S4")
            colour = _COLOURS.get(layer, S4)
            bottom.loglog(*zip(*points, strict=True), mark, color=colour, ms=5, mfc="none", label=label)
    if bottom.lines:
        low, high = (f(*bottom.get_xlim(), *bottom.get_ylim()) for f in (min, max))
        bottom.plot([low, high], [low, high], color="#888888", lw=0.8, ls=":")
        bottom.legend(fontsize=9, loc="upper left")
        for axis in (top.yaxis, bottom.xaxis, bottom.yaxis):
            _plain(axis)
    if top.lines:
        top.legend(fontsize=9, loc="upper left")
    bottom.set(xlabel="certified supremum before training", ylabel="after training")
    return figure


def _plain(axis: Any) -> None:
    """Ticks at 1, 2 and 5 of a decade or two, as numbers."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axis.set_major_formatter(FuncFormatter(lambda value, place: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def _most_trained(models: list[Model]) -> dict[str, Model]:
    """One of S4D and one of S4-PTD that have a curve: on images, where all parameters learn, if there are such."""
    found = {}
    for layer in _PAIRS[0]:
        mine = [m for m in models if m["layer"] == layer and "curve" in m["before"] and "curve" in m["after"]]
        if mine:
            found[layer] = max(mine, key=lambda m: (m["task"] == "scifar", m["learns"] == "all", m["name"]))
    return found
