"""How long layers and training steps take on a GPU, beside other implementations: from a record of the benchmark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from wellposed._files import write_whole
from wellposed.errors import RecordError
from wellposed.report._style import S4, THIRD, WIDTH, pyplot, standalone, to_svg

Row = dict[str, Any]
_BARS = {
    "textbook": ("textbook, plain PyTorch", "#c3c8ce"),
    "published": ("published", "#8d96a0"),
    "cufft": ("convolution by cuFFT alone", "#a8afb7"),
    "highest": ("ours, float32", S4),
    "high": ("ours, tf32", THIRD),
}
"""What is drawn for each row, from the top, where it was measured: others in grey, ours in colour."""
_FLOOR = "moving the bytes alone"
_HEADINGS = {"layer": "One layer: batch x length x channels", "step": "One training step: layers x channels"}
_GAP = 2.2  # between groups, in bars: room for the name of the row


def save_speed(record: Path, path: Path) -> Path:
    """Draw a record of ``benchmarks/gpu.py`` as an SVG file that follows light and dark settings."""
    try:
        rows = json.loads(record.read_text(encoding="utf-8"))["rows"]
        svg = to_svg(speed(rows), "speed")
    except FileNotFoundError:
        raise RecordError(f"there is no record {record}: run 'python benchmarks/gpu.py --record {record}'") from None
    except (json.JSONDecodeError, KeyError, TypeError) as error:
        raise RecordError(f"{record} is no record of benchmarks/gpu.py ({error}): run it again") from None
    return write_whole(path, standalone(svg))


def speed(rows: list[Row]) -> Any:
    """Bars on one logarithmic axis, a group for each row; a stroke where bytes alone would take as long."""
    panels = {section: times(rows, section) for section in _HEADINGS}
    panels = {section: groups for section, groups in panels.items() if groups}
    if not panels:
        raise RecordError("the record holds no layer and no training step in tf32: run benchmarks/gpu.py again")
    sizes = [sum(len(group) + _GAP for group in groups.values()) for groups in panels.values()]
    options = {"sharex": True, "squeeze": False, "gridspec_kw": {"height_ratios": sizes}}
    figure, axes = pyplot().subplots(len(panels), 1, figsize=(1.25 * WIDTH, 1.2 + 0.145 * sum(sizes)), **options)
    every = [t for groups in panels.values() for group in groups.values() for t in group.values()]
    low, high = 0.6 * min(every), 2.5 * max(every)
    for ax, (section, groups) in zip(axes[:, 0], panels.items(), strict=True):
        ax.set_title(_HEADINGS[section], loc="left", fontweight="bold")
        _draw(ax, groups, low)
        ax.set(xscale="log", xlim=(low, high))
        ax.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes[-1, 0].set_xlabel(
        "milliseconds, forward and backward: shorter is better\n(times faster than published, on the same machine)"
    )
    found = {label: h for ax in axes[:, 0] for h, label in zip(*ax.get_legend_handles_labels(), strict=True)}
    labels = [label for label in (*(label for label, _ in _BARS.values()), _FLOOR) if label in found]
    figure.legend([found[label] for label in labels], labels, loc="outside upper left", ncols=2, fontsize=9.5)
    return figure


def times(rows: list[Row], section: str) -> dict[str, dict[str, float]]:
    """Milliseconds by row and by what took them, ``"floor"`` among them; replayed where that was measured."""
    found: dict[str, dict[str, float | None]] = {}
    for row in rows:
        if row["section"] != section or row["precision"] not in ("high", "highest") or "ours" not in row:
            continue
        group = found.setdefault(row["row"], dict.fromkeys((*_BARS, "floor")))
        group[row["precision"]] = _milliseconds(row["ours"])
        if row["precision"] == "high":
            plain = [_milliseconds(row.get(kind, {})) for kind in ("textbook", "scan")]  # S5 has both: the faster one
            group["textbook"] = min((t for t in plain if t is not None), default=None)
            group["cufft"] = _milliseconds(row.get("cufft", {}))
            group |= {"published": row["published"], "floor": row["floor"]}
    kept = {name: {kind: t for kind, t in group.items() if t is not None} for name, group in found.items()}
    return {name: group for name, group in kept.items() if "high" in group}


def _milliseconds(measured: dict[str, float | None]) -> float | None:
    replayed = measured.get("graph")
    return measured.get("eager") if replayed is None else replayed


def _draw(ax: Any, groups: dict[str, dict[str, float]], low: float) -> None:
    y = 0.0
    for name, group in groups.items():
        ax.text(low, y + 0.42, f" {name}", fontsize=9.5, va="bottom")
        top = y
        for kind, (label, color) in _BARS.items():
            if kind not in group:
                continue
            y += 1
            ax.barh(y, group[kind] - low, left=low, height=0.86, color=color, label=label)
            if kind == "high":
                ax.text(group[kind], y, f" {_said(group)}", fontsize=9, va="center", fontweight="bold", color=color)
        if "floor" in group:
            ink = pyplot().rcParams["text.color"]
            ax.plot([group["floor"]] * 2, [top + 0.5, y + 0.5], color=ink, lw=1.6, label=_FLOOR)
        y += _GAP
    ax.set(ylim=(y - _GAP + 0.8, -1.2), yticks=[])
    ax.grid(axis="y", visible=False)
    ax.set_axisbelow(True)


def _said(group: dict[str, float]) -> str:
    """The time, and how many times faster that is than what was published."""
    ours, published = group["high"], group.get("published")
    ratio = "" if published is None else f", {published / ours:.1f} x faster" if published > ours else ""
    return f"{ours:.2g} ms{ratio}"
