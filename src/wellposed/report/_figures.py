"""One figure for every experiment, drawn from the data of its record."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from wellposed.errors import UnknownNameError
from wellposed.experiments import Record
from wellposed.report._style import S4, S4D, SHADES, WIDTH, pyplot, standalone, to_svg

Data = dict[str, Any]


def figure_svg(name: str, data: Data) -> str:
    """The figure of the experiment called ``name`` as an SVG element."""
    if name not in FIGURES:
        raise UnknownNameError("figure", name, FIGURES)
    return to_svg(FIGURES[name](data), name)


def save_figures(records: list[Record], folder: Path) -> list[Path]:
    """Every figure, and the one that heads the README, as an SVG file that follows light and dark settings."""
    drawn = {record.experiment: figure_svg(record.experiment, record.data) for record in records}
    for record in records:
        if record.experiment == "transfer-function":
            drawn["headline"] = to_svg(headline(record.data), "headline")
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{name}.svg" for name in drawn]
    for path, svg in zip(paths, drawn.values(), strict=True):
        path.write_text(standalone(svg), encoding="utf-8")
    return paths


def transfer_function(data: Data) -> Any:
    """|G| on the whole axis, and the last spike of every size from close by."""
    plt = pyplot()
    figure = plt.figure(figsize=(WIDTH, 7.2))
    grid = figure.add_gridspec(3, 2, height_ratios=[2.1, 1, 1])
    ax = figure.add_subplot(grid[0, :])
    for curve, color in zip(data["G_Diag"], SHADES, strict=True):
        ax.loglog(curve["omega"], curve["magnitude"], color=color, lw=1.0, label=f"S4D, n = {curve['n']}")
    ax.loglog(data["G_DPLR"]["omega"], data["G_DPLR"]["magnitude"], color=S4, lw=2.2, label="S4, any n")
    ax.set(xlabel="frequency", ylabel="|G|", ylim=(1e-9, 2))
    ax.legend(fontsize=9.5, loc="lower left")
    ax.set_title("S4 is smooth; S4D spikes, and its last spike stays", loc="left")
    for k, (zoom, color) in enumerate(zip(data["zoom"], SHADES, strict=True)):
        small = figure.add_subplot(grid[1 + k // 2, k % 2])
        small.plot(zoom["offset"], zoom["G_Diag"], color=color)
        small.plot(zoom["offset"], zoom["G_DPLR"], color=S4, lw=2)
        small.set(ylim=(0, 0.55), xticks=[-5, 0, 5], yticks=[0, 0.25, 0.5])
        small.set_title(f"n = {zoom['n']}, at {zoom['frequency']:.3g}", loc="left", fontsize=10)
        if k > 1:
            small.set_xlabel("distance from it")
    return figure


def headline(data: Data) -> Any:
    """The point of the paper in one panel: S4 smooth, S4D spiking."""
    plt = pyplot()
    figure, ax = plt.subplots(figsize=(1.6 * WIDTH, 3.1))
    curve = next(curve for curve in data["G_Diag"] if curve["n"] == 1000)
    ax.loglog(curve["omega"], curve["magnitude"], color=S4D, lw=0.9, label="S4D: spikes, the last one as tall as ever")
    ax.loglog(data["G_DPLR"]["omega"], data["G_DPLR"]["magnitude"], color=S4, lw=2.4, label="S4: smooth")
    ax.set(xlabel="frequency of the input", ylabel="|G|, gain to the output", xlim=(0.1, 1e7), ylim=(1e-7, 2))
    ax.legend(loc="lower left")
    ax.set_title("n = 1000: what each model passes on, frequency by frequency", loc="left")
    return figure


def cosine_response(data: Data) -> Any:
    """Both outputs at every frequency, on the scale each needs."""
    plt = pyplot()
    figure, axes = plt.subplots(len(data["waves"]), 1, figsize=(WIDTH, 7.4), sharex=True)
    time = [1e3 * data["dt"] * k for k in range(len(data["waves"][0]["dplr"]))]
    for ax, wave in zip(axes, data["waves"], strict=True):
        ax.plot(time, wave["diag"], color=S4D, lw=0.8, label="S4D")
        ax.plot(time, wave["dplr"], color=S4, lw=0.8, label="S4")
        top = 1.35 * max(wave["diag_peak"], wave["dplr_peak"])
        ax.set(ylim=(-top, top), ylabel="output")
        times = wave["diag_peak"] / wave["dplr_peak"]
        ax.set_title(f"cos({wave['s']:g} t): S4D answers {times:.1f} times as strongly", loc="left")
    axes[0].legend(loc="upper right", ncols=2, fontsize=9.5)
    axes[-1].set_xlabel("time in ms (one step is 1 ms)")
    return figure


def _error_and_curves(data: Data, title: str, guide: Callable[[Any], None], steps: int) -> Any:
    plt = pyplot()
    figure = plt.figure(figsize=(WIDTH, 6.4))
    grid = figure.add_gridspec(2, 3, height_ratios=[1.5, 1])
    ax = figure.add_subplot(grid[0, :])
    ax.loglog(data["n"], data["error"], "o-", color=S4D, label="|S4 − S4D|, l2 over 10⁴ steps")
    guide(ax)
    ax.set(xlabel="n", xticks=[3, 8, 15, 32, 75], xticklabels=["3", "8", "15", "32", "75"])
    ax.minorticks_off()
    ax.legend(fontsize=9.5)
    ax.set_title(title, loc="left")
    first = None
    for k, curve in enumerate(data["curves"]):
        small = figure.add_subplot(grid[1, k], sharey=first)
        first = first or small
        time = [steps * data["dt"] * i for i in range(len(curve["dplr"]))]
        small.plot(time, curve["diag"], color=S4D, lw=1.2)
        small.plot(time, curve["dplr"], color=S4, lw=1.2)
        small.set_title(f"n = {curve['n']}", loc="left", fontsize=10)
        small.set_xlabel("time in s")
        small.tick_params(labelleft=k == 0)
        small.ticklabel_format(axis="y", scilimits=(-2, 3), useMathText=True)
    return figure


def decay_convergence(data: Data) -> Any:
    """Error over n with a line of slope -1, and the outputs for three sizes."""

    def guide(ax: Any) -> None:
        n = data["n"]
        ax.loglog(n, [0.6 * data["error"][0] * n[0] / k for k in n], "--", color=S4, label="slope −1")
        ax.set(yticks=[0.1, 0.3, 1, 3], yticklabels=["0.1", "0.3", "1", "3"])

    return _error_and_curves(data, "Input exp(−t): the difference falls like 1/n", guide, data["every"])


def impulse_divergence(data: Data) -> Any:
    """Error over n, which stays, and the outputs for three sizes."""

    def guide(ax: Any) -> None:
        ax.set(ylim=(0.003, 0.03), yticks=[0.003, 0.01, 0.03], yticklabels=["0.003", "0.01", "0.03"])

    return _error_and_curves(data, "Unit impulse: the difference does not fall", guide, 1)


def resolvent_bound(data: Data) -> Any:
    """The squared norm along the axis, and its maximum over n beside the bound."""
    plt = pyplot()
    figure, (left, right) = plt.subplots(2, 1, figsize=(WIDTH, 5.8))
    for curve, color in zip(data["curves"], SHADES, strict=True):
        left.semilogx(curve["omega"][1:], curve["square"][1:], color=color, label=f"n = {curve['n']}")
    left.set(xlabel="frequency", ylim=(0, None))
    left.set_title("‖(iω − A)⁻¹‖² is largest at ω = 0", loc="left")
    left.legend(fontsize=9.5)
    n = [curve["n"] for curve in data["curves"]]
    right.semilogx(
        n, [curve["bound"] for curve in data["curves"]], "s--", color=S4, label="the paper's bound, 2 ln n + 4"
    )
    right.semilogx(
        n, [curve["at_zero"] for curve in data["curves"]], "o-", color=S4D, label="largest value on the axis"
    )
    right.set(xlabel="n", ylim=(0, 18), xticks=n, xticklabels=[str(k) for k in n])
    right.minorticks_off()
    right.set_title("The bound holds with room", loc="left")
    right.legend(fontsize=9.5)
    return figure


FIGURES: dict[str, Callable[[Data], Any]] = {
    "transfer-function": transfer_function,
    "cosine-response": cosine_response,
    "decay-convergence": decay_convergence,
    "impulse-divergence": impulse_divergence,
    "resolvent-bound": resolvent_bound,
}
