"""One figure for every experiment, drawn from the data of its record."""

from __future__ import annotations

from collections.abc import Callable
from math import log10
from pathlib import Path
from typing import Any

from wellposed._files import write_whole
from wellposed.errors import UnknownNameError
from wellposed.plot._style import STRONG, ramp
from wellposed.records import Record
from wellposed.report._ablation_figure import ablation
from wellposed.report._lra_figure import lra
from wellposed.report._matrix_figure import any_matrix
from wellposed.report._noise_figures import certificates, robustness
from wellposed.report._opening import headline, responses
from wellposed.report._style import S4, S4D, SHADES, THIRD, WIDTH, pyplot, standalone, to_svg
from wellposed.report._trained_figures import failure_modes

Data = dict[str, Any]
_CLOUDS = (S4D, SHADES[2], S4)
"""Of eigenvalues, the largest perturbation first."""


def figure_svg(name: str, data: Data) -> str:
    """The figure of the experiment called ``name`` as an SVG element."""
    if name not in FIGURES:
        raise UnknownNameError("figure", name, FIGURES)
    return to_svg(FIGURES[name](data), name)


def save_figures(records: list[Record], folder: Path) -> list[Path]:
    """Every figure, and the one that heads the README, as an SVG file that follows light and dark settings."""
    drawn = {record.experiment: figure_svg(record.experiment, record.data) for record in records}
    if (first := headline(records)) is not None:
        drawn["headline"] = to_svg(first, "headline")
    return [write_whole(folder / f"{name}.svg", standalone(svg)) for name, svg in drawn.items()]


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


def transfer_perturbation(data: Data) -> Any:
    """The three responses, and the error of every perturbation against its size."""
    plt = pyplot()
    figure, (top, bottom) = plt.subplots(2, 1, figsize=(WIDTH, 6.8))
    responses(top, data["curves"])
    top.set_title("PTD follows S4 where S4D spikes (n = 32)", loc="left")
    styles = {"S4D": ("s", S4D), "rank-one": ("o", THIRD), "paper's": ("D", S4), "gaussian": ("x", "#8a4fb5")}
    names = {"S4D": "S4D", "rank-one": "closed form", "paper's": "paper's objective", "gaussian": "random"}
    for key, (marker, color) in styles.items():
        rows = [row for row in data["rows"] if row["name"].startswith(key)]
        bottom.loglog([r["norm"] for r in rows], [r["error"] for r in rows], marker, color=color, label=names[key])
    bottom.set(xlabel="‖E‖", ylabel="sup |ΔG|, certified", ylim=(2e-5, 1e-1))
    bottom.set_title("Same size, very different error", loc="left")
    bottom.legend(fontsize=9.5, ncols=2)
    return figure


def gamma_tables(data: Data) -> Any:
    """Both tables as curves, the paper's numbers as points; and the closed form against the paper."""
    plt = pyplot()
    figure, axes = plt.subplots(3, 1, figsize=(WIDTH, 8.4), sharex=True)
    for n, color in zip((8, 16, 32, 64, 128), (*SHADES, S4), strict=True):
        cells = [cell for cell in data["cells"] if cell["n"] == n]
        gamma = [cell["gamma"] for cell in cells]
        for ax, key in ((axes[0], "condition"), (axes[1], "perturbation")):
            ax.loglog(gamma, [cell[key] for cell in cells], color=color, label=f"n = {n}")
            ax.loglog(gamma, [cell[f"paper_{key}"] for cell in cells], "o", color=color, ms=5, mfc="none")
        ratio = [cell["paper_condition"] / cell["closed_form"] for cell in cells]
        axes[2].semilogx(gamma, ratio, "o-", color=color, ms=4)
    axes[0].set_title("κ(V): ours (lines), the paper's table (circles)", loc="left")
    axes[1].set_title("‖E‖, Frobenius: likewise", loc="left")
    axes[2].set_title("Paper's κ over the closed form's at the same ‖E‖", loc="left")
    axes[2].axhline(1, color=S4D, lw=1)
    axes[2].set(xlabel="γ", ylim=(0.95, 1.35))
    axes[0].legend(fontsize=9, ncols=2)
    return figure


def condition_vs_size(data: Data) -> Any:
    """The paper's three-dimensional figure, and the plain one that shows the same in a glance."""
    plt = pyplot()
    figure = plt.figure(figsize=(WIDTH, 8.0))
    solid = figure.add_subplot(2, 1, 1, projection="3d")
    solid.set_box_aspect(None, zoom=0.85)
    flat = figure.add_subplot(2, 1, 2)
    for n, color in zip((8, 16, 32, 64, 128), (*SHADES, S4), strict=True):
        rows = [row for row in data["rows"] if row["n"] == n]
        rel, kappa = [r["rel"] for r in rows], [r["condition"] for r in rows]
        solid.plot([log10(r) for r in rel], [log10(n)] * len(rel), [log10(k) for k in kappa], "o-", color=color, ms=3)
        flat.loglog(rel, kappa, color=color, label=f"n = {n}")
        paper = [cell for cell in data["paper"] if cell[0] == n]
        flat.loglog([cell[1] for cell in paper], [cell[2] for cell in paper], "o", color=color, ms=5, mfc="none")
    solid.set(xlabel="log₁₀ ‖E‖/‖A‖", ylabel="log₁₀ n", zlabel="log₁₀ κ")
    solid.set_title("Closed form: κ over size and n", loc="left")
    flat.set(xlabel="‖E‖/‖A‖", ylabel="κ(V)")
    flat.set_title("With the paper's cells (circles): n hardly matters", loc="left")
    flat.legend(fontsize=9)
    return figure


def pareto(data: Data) -> Any:
    """Condition number against size, a colour a method."""
    plt = pyplot()
    figure, axes = plt.subplots(3, 2, figsize=(WIDTH, 7.6))
    styles = {
        "gaussian": ("x--", "#8a4fb5", "random"),
        "paper": ("s-", S4D, "the paper"),
        "rank_one": ("o-", THIRD, "closed form"),
        "optimized": (".-", S4, "optimized"),
    }
    for ax, n in zip(axes.flat, (8, 16, 32, 64, 128), strict=False):
        rows = [row for row in data["rows"] if row["n"] == n]
        for key, (style, color, name) in styles.items():
            ax.loglog([r["eps"] for r in rows], [r[key] for r in rows], style, color=color, ms=5, lw=1.2, label=name)
        ax.set_title(f"n = {n}", loc="left", fontsize=10)
        ax.set_xlabel("‖E‖")
        ax.set_ylabel("κ(V)")
    handles, labels = axes.flat[0].get_legend_handles_labels()
    axes.flat[5].axis("off")
    axes.flat[5].legend(handles, labels, loc="center")
    return figure


def default_perturbation(data: Data) -> Any:
    """What each size costs and gives, with the default marked."""
    plt = pyplot()
    figure, axes = plt.subplots(3, 1, figsize=(WIDTH, 8.0), sharex=True)
    for n, s4d, color in zip((16, 32, 64, 128), data["S4D"], SHADES, strict=True):
        rows = [row for row in data["rows"] if row["n"] == n]
        rel = [row["rel"] for row in rows]
        axes[0].loglog(rel, [row["condition"] for row in rows], "o-", color=color, ms=4, label=f"n = {n}")
        stable = [(row["rel"], s4d / row["error"]) for row in rows if row["error"] is not None]
        axes[1].loglog(*zip(*stable, strict=True), "o-", color=color, ms=4)
        axes[2].semilogx(rel, [row["abscissa"] for row in rows], "o-", color=color, ms=4)
    for ax in axes:
        ax.axvline(0.1, color=THIRD, lw=5, alpha=0.35)
    axes[0].set_title("κ(V): 3.5 at the default (bar), whatever n", loc="left")
    axes[1].set_title("How many times closer to S4 than S4D is", loc="left")
    axes[2].set_title("Largest real part: unstable from about 20 %", loc="left")
    axes[2].axhline(0, color=S4D, lw=1)
    axes[2].set(xlabel="‖E‖/‖A‖", ylim=(-1.1, 1.1), xticks=[1e-3, 1e-2, 0.1], xticklabels=["0.1 %", "1 %", "10 %"])
    axes[0].legend(fontsize=9.5)
    return figure


def pseudospectrum(data: Data) -> Any:
    """Level curves of the resolvent with the perturbed eigenvalues; dashed the level that each cloud cannot leave."""
    plt = pyplot()
    figure, ax = plt.subplots(figsize=(WIDTH, 5.9))
    x, y, level = data["x"], data["y"], data["log10_rel"]
    strong = {round(log10(cloud["rel"]), 6): color for cloud, color in zip(data["clouds"], _CLOUDS, strict=True)}
    plain = [power for power in (-12, -10, -8, -6, -4, -3, -2, -1) if power not in strong]
    ax.contour(x, y, level, levels=plain, cmap=ramp(), linewidths=0.9)
    for power, color in sorted(strong.items()):
        lines = ax.contour(x, y, level, levels=[power], **STRONG | {"colors": [color]})
        ax.clabel(lines, fmt=lambda v: f"$10^{{{v:.0f}}}$", fontsize=8, colors=plt.rcParams["text.color"])
    for cloud, color in zip(data["clouds"], _CLOUDS, strict=True):
        label = f"A + E, ‖E‖ = {cloud['rel']:g} ‖A‖"
        ax.plot(cloud["real"], cloud["imag"], "o", color=color, ms=4, label=label)
    ax.plot([-k for k in range(1, data["n"] + 1)], [0] * data["n"], "|", color=THIRD, ms=7, label="A itself: −1 to −32")
    ax.plot([], [], color="#888888", ls="--", lw=STRONG["linewidths"], label="level ‖E‖ of each")
    ax.plot([], [], color=ramp()(0.6), lw=0.9, label="10⁻³, 10⁻⁶, 10⁻⁸ to 10⁻¹²")
    ax.set(xlabel="real part", ylabel="imaginary part", xlim=(-420, 60), ylim=(-260, 260))
    ax.set_title("Within ε‖A‖ of A, eigenvalues reach curve ε", loc="left")
    figure.legend(fontsize=9, loc="outside lower center", ncols=2)  # in the plane it would hide an eigenvalue
    return figure


FIGURES: dict[str, Callable[[Data], Any]] = {
    "transfer-function": transfer_function,
    "cosine-response": cosine_response,
    "decay-convergence": decay_convergence,
    "impulse-divergence": impulse_divergence,
    "resolvent-bound": resolvent_bound,
    "pseudospectrum": pseudospectrum,
    "transfer-perturbation": transfer_perturbation,
    "gamma-tables": gamma_tables,
    "condition-vs-size": condition_vs_size,
    "pareto": pareto,
    "default-perturbation": default_perturbation,
    "any-matrix": any_matrix,
    "failure-modes": failure_modes,
    "failure-modes-full": failure_modes,
    "robustness": robustness,
    "robustness-full": robustness,
    "ablation": ablation,
    "ablation-full": ablation,
    "lra": lra,
    "lra-full": lra,
    "certificates": certificates,
    "certificates-full": certificates,
}
"""The drawing of every experiment, in the order in which a report shows them."""
