"""The figure of many matrices: how far every method is from the bound, a row a matrix."""

from __future__ import annotations

from typing import Any

from wellposed.report._style import S4, S4D, SHADES, THIRD, WIDTH, pyplot

Data = dict[str, Any]
_STYLES: dict[str, Data] = {
    "auto": {"color": S4, "marker": "o", "label": "auto", "ms": 7},  # first: seen around what it agrees with
    "gaussian": {"color": SHADES[0], "marker": "X", "label": "best of 50 draws", "ms": 4},
    "rank-one": {"color": S4D, "marker": "s", "label": "closed form", "ms": 4},
    "adam": {"color": SHADES[3], "marker": "^", "label": "Adam", "ms": 4},
    "optimized": {"color": THIRD, "marker": "D", "label": "optimized", "ms": 3.5},
}
_FARTHEST = 1e5  # what is beyond is drawn at the edge


def any_matrix(data: Data) -> Any:
    """A panel for every size, sorted by kappa of "auto"; from the bound (bar) to the methods, hollow where unstable."""
    plt = pyplot()
    rels = sorted({row["rel"] for row in data["rows"]}, reverse=True)
    count = max(sum(row["rel"] == rel for row in data["rows"]) for rel in rels)
    figure, axes = plt.subplots(len(rels), 1, figsize=(WIDTH, 0.4 + len(rels) * (0.7 + 0.17 * count)), squeeze=False)
    for ax, rel in zip(axes[:, 0], rels, strict=True):
        rows = [row for row in data["rows"] if row["rel"] == rel]
        _panel(ax, sorted(rows, key=lambda row: -row["methods"]["auto"]["condition"]))
        ax.set_title(f"κ(V) at {100 * rel:g} % of ‖A‖; grey: out of reach", loc="left", fontsize=9)
    handles, labels = axes[0, 0].get_legend_handles_labels()
    look = {"fontsize": 7.5, "title_fontsize": 7.5, "ncols": 3}
    figure.legend(handles, labels, loc="outside upper center", title="hollow: unstable", **look)
    return figure


def _panel(ax: Any, rows: list[Data]) -> None:
    places = range(len(rows))
    ax.barh(places, [row["bound"] - 1 for row in rows], left=1, height=0.8, color="#888888", alpha=0.35, lw=0)
    for method, style in _STYLES.items():
        found = [(place, row["methods"][method], row["abscissa"] < 0) for place, row in zip(places, rows, strict=True)]
        shown = [(f["condition"], p, s and f["abscissa"] >= 0) for p, f, s in found if f["condition"] is not None]
        color, marker = style["color"], style["marker"]
        for hollow in (False, True):
            mine = [(min(x, _FARTHEST), y) for x, y, lost in shown if lost == hollow]
            face = "none" if hollow else color
            label = style["label"] if not hollow else None
            x, y = zip(*mine, strict=True) if mine else ((), ())
            look = {
                "marker": marker,
                "mfc": face,
                "mec": color,
                "label": label,
                "ms": style["ms"],
                "mew": 0.9,
                "ls": "",
            }
            ax.plot(x, y, zorder=3, **look)
    ax.set(xscale="log", xlim=(1, 1.3 * _FARTHEST), ylim=(-0.7, len(rows) - 0.3), yticks=list(places))
    ax.set_yticklabels([row["name"] for row in rows], fontsize=7.5)
    ax.set_xticks([1, 10, 100, 1e3, 1e4, _FARTHEST], ["1", "10", "100", "10³", "10⁴", "≥ 10⁵"], fontsize=8)
    ax.tick_params(axis="y", length=0)
