"""Pictures of a training run: its curves, how strongly its layers answer, and their spectra before and after."""

from __future__ import annotations

import math
from typing import Any

from wellposed.report._style import S4, S4D, THIRD, WIDTH, pyplot

Row = dict[str, Any]
_SPLITS = {"train": ("training", "#8d96a0"), "val": ("validation", S4), "test": ("test", THIRD)}
_BEFORE, _AFTER = "#8d96a0", S4
_HOLLOW = S4D
"""Eigenvalues before training: they stand in front of those after, as channels start alike and then spread."""
_ROW = 1.55
"""Inches a row of small pictures is high."""


def curves(rows: list[Row], best_epoch: int | None) -> Any:
    """Loss, accuracy where classes are told, and learning rate over the epochs; a line where the best epoch ended."""
    epochs = [row for row in rows if row.get("kind") == "epoch"]
    panels = [
        name for name in ("loss", "accuracy") if any(f"{split}_{name}" in row for split in _SPLITS for row in epochs)
    ]
    figure, axes = pyplot().subplots(len(panels) + 1, 1, figsize=(WIDTH, 1.5 + 1.5 * len(panels)), sharex=True,
                                     squeeze=False, gridspec_kw={"height_ratios": [2] * len(panels) + [1]})  # fmt: skip
    *upper, rate = axes[:, 0]
    for ax, name in zip(upper, panels, strict=True):
        for split in _SPLITS:
            _curve(ax, epochs, split, name)
        ax.set_ylabel(name)
    if panels and panels[-1] == "accuracy":
        upper[-1].yaxis.set_major_formatter(lambda value, _: f"{value:.0%}" if value < 1.001 else "")
    steps = [row for row in rows if "lr" in row]
    last = epochs[-1]["step"] / epochs[-1]["epoch"] if epochs else 1
    rate.plot([row["step"] / last for row in steps], [row["lr"] for row in steps], color=S4D)
    rate.set(xlabel="epoch", ylabel="rate", ylim=(0, None))
    rate.ticklabel_format(axis="y", scilimits=(-2, 3), useMathText=True)
    rate.xaxis.get_major_locator().set_params(integer=True)
    for ax in axes[:, 0] if best_epoch is not None else ():
        ax.axvline(best_epoch, color=_SPLITS["val"][1], lw=0.9, ls=":")
    if upper:
        figure.legend(*upper[0].get_legend_handles_labels(), loc="outside upper right", ncols=3, fontsize=9.5)
    return figure


def _curve(ax: Any, epochs: list[Row], split: str, name: str) -> None:
    label, color = _SPLITS[split]
    seen = [(row["epoch"], row[f"{split}_{name}"]) for row in epochs if f"{split}_{name}" in row]
    if seen:
        ax.plot(*zip(*seen, strict=True), color=color, label=label, marker="o" if len(seen) < 15 else None, ms=3.5)


def responses(layers: list[Row]) -> Any:
    """The largest response of each layer's channels over frequency, before and after, and its certified supremum."""
    figure, axes = _grid(layers, 2)
    room = _room(layers)
    for ax, layer in zip(axes, layers, strict=True):
        for when, color, label in (("before", _BEFORE, "before training"), ("after", _AFTER, "after")):
            found = (layer[when] or {}).get("response")
            if found is not None:
                _response(ax, found, color, label)
        ax.set_title(f"layer {layer['number']}: {_numbers(layer)}", loc="left")
        ax.set(xscale="log", yscale="log", ylim=room)
        ax.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
        ax.yaxis.set_minor_formatter(lambda value, _: "")
        ax.set_xticks([1e-4, 1e-2, 0.5], ["10⁻⁴", "10⁻²", "½"])
        ax.minorticks_off()
    figure.supxlabel("frequency in cycles a step", fontsize=10.5)
    figure.supylabel("largest output for input 1", fontsize=10.5)
    _legend(figure, axes)
    return figure


def _response(ax: Any, found: Row, color: str, label: str) -> None:
    filled = color == _AFTER
    ax.plot(found["cycles"], found["largest"], color=color, lw=1.3, label=label, zorder=3 if filled else 2)
    worst = found["worst"][0]
    at = max(worst["cycles"], found["cycles"][0])
    ax.plot(at, worst["value"], "o", color=color, mfc=color if filled else "none", ms=6, zorder=4, clip_on=False)


def _numbers(layer: Row) -> str:
    """The supremum before and after."""
    found = [layer[when]["response"] for when in ("before", "after") if layer[when] and layer[when]["response"]]
    return " → ".join(f"{response['worst'][0]['value']:.3g}" for response in found)


def _room(layers: list[Row]) -> tuple[float, float]:
    """The same for all layers, and a decade and a half at least: what is flat shall look flat."""
    found = [layer[when]["response"] for layer in layers for when in ("before", "after") if layer[when]]
    high = max(some["worst"][0]["value"] for some in found if some)
    low = min(min(some["largest"]) for some in found if some)
    return float(min(low / 1.5, high / 20)), float(2 * high)


def spectra(layers: list[Row]) -> Any:
    """A row for each layer: eigenvalues in the plane, before hollow and after filled, and histograms of the steps."""
    plt = pyplot()
    figure, axes = plt.subplots(len(layers), 2, figsize=(WIDTH, 0.9 + 1.15 * _ROW * len(layers)), squeeze=False)
    for layer, (plane, steps) in zip(layers, axes, strict=True):
        _plane(plane, layer)
        _steps(steps, layer)
        plane.set_title(f"layer {layer['number']}", loc="left")
    axes[-1, 0].set_xlabel("decay, −Re λ")
    axes[-1, 1].set_xlabel("step dt")
    figure.supylabel("frequency, Im λ", fontsize=10.5)
    _legend(figure, axes[:, 0])
    return figure


def _plane(ax: Any, layer: Row) -> None:
    """Decay on a logarithmic axis that runs to the left, as the plane does; frequency too, but for its zero."""
    looks: dict[str, Row] = {
        "before": {"mfc": "none", "mec": _HOLLOW, "ms": 5, "mew": 0.9, "label": "before training", "zorder": 3},
        "after": {"mfc": _AFTER, "mec": "none", "ms": 3, "label": "after"},
    }
    for when, look in looks.items():
        values = (layer[when] or {}).get("eigenvalues")
        if values is not None:
            ax.plot([-real for real in values[0]], values[1], "o", **look)
    ax.set(xscale="log")
    threshold = _smallest(layer)
    ax.set_yscale("symlog", linthresh=threshold)
    low, high = ax.get_xlim()
    middle = math.sqrt(low * high)
    ax.set_xlim(max(high, 3 * middle), min(low, middle / 3))
    ax.set_ylim(0, 3 * ax.get_ylim()[1])
    # ticks of its own: a decade may hold the whole axis
    ax.set_xticks(_ticks(*ax.get_xlim()))
    ax.set_yticks([0, *(tick for tick in ax.get_yticks() if tick > 3 * threshold)][:: 1 + (len(ax.get_yticks()) > 6)])
    ax.minorticks_off()
    ax.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    ax.tick_params(labelsize=9)


def _ticks(high: float, low: float) -> list[float]:
    """Round numbers on a logarithmic axis, three or so."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for digits in ((1,), (1, 3), (1, 2, 5)):
        ticks = [digit * 10.0**k for k in decades for digit in digits if low <= digit * 10.0**k <= high]
        if len(ticks) >= 2:
            break
    return ticks[:: math.ceil(len(ticks) / 4)]


def _smallest(layer: Row) -> float:
    """Below it the axis of frequencies is linear, down to zero."""
    found = [
        layer[when]["eigenvalues"][1] for when in ("before", "after") if layer[when] and layer[when]["eigenvalues"]
    ]
    high = max((value for some in found for value in some), default=1.0)
    return max(float(high) / 1e3, 1e-12)


def _steps(ax: Any, layer: Row) -> None:
    found = {when: layer[when]["dt"] for when in ("before", "after") if layer[when]}
    low, high = (f(f(steps) for steps in found.values()) for f in (min, max))
    low, high = math.log10(low) - 0.05, math.log10(high) + 0.05
    bins = [10 ** (low + (high - low) * k / 16) for k in range(17)]
    for when, steps in found.items():
        look: Row = (
            {"histtype": "step", "color": _BEFORE, "lw": 1.4} if when == "before" else {"color": _AFTER, "alpha": 0.75}
        )
        ax.hist(steps, bins=bins, zorder=3 if when == "before" else 2, **look)
    ax.set(xscale="log", yticks=[])
    ax.xaxis.set_minor_formatter(lambda value, _: "")
    ax.tick_params(labelsize=9)


def _grid(layers: list[Row], columns: int) -> tuple[Any, Any]:
    """Small pictures side by side, one a layer."""
    columns = min(columns, len(layers))
    rows = math.ceil(len(layers) / columns)
    size = (WIDTH, 0.9 + 1.25 * _ROW * rows)
    figure, axes = pyplot().subplots(rows, columns, figsize=size, squeeze=False, sharex=True)
    for ax in axes.flat[len(layers) :]:
        ax.remove()
    return figure, axes.flat[: len(layers)]


def _legend(figure: Any, axes: Any) -> None:
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper right", ncols=2, fontsize=9.5)
