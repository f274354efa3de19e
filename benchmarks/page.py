"""The tables of docs/devdocs/gpu.md, from the record of the GPU's benchmark: ``gpu.py --draw``."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

Row = dict[str, Any]
PRECISIONS = {"highest": "float32", "high": "tf32", "bf16": "bf16"}


def fill(record: Path, page: Path) -> Path:
    """Put the tables of the GPU's record into the page."""
    rows = json.loads(record.read_text(encoding="utf-8"))["rows"]
    whole = [row for row in rows if "failed" not in row]
    return write(page, {name: lines(whole) for name, lines in TABLES.items()})


def write(page: Path, tables: Mapping[str, Iterable[str]]) -> Path:
    """Put each table between its two marks, in the place of what is there."""
    text = page.read_text(encoding="utf-8")
    for name, lines in tables.items():
        marks, table = re.compile(rf"(<!-- table: {name} -->\n).*?(<!-- end -->)", re.DOTALL), "\n".join(lines)
        text, count = marks.subn(lambda found, table=table: f"{found[1]}\n{table}\n\n{found[2]}", text)
        if count != 1:
            raise SystemExit(f"{page} has {count} places for the table of {name}, not one")
    page.write_text(text, encoding="utf-8")
    return page


def speed(rows: list[Row]) -> Iterator[str]:
    """Layers and steps: milliseconds in each precision, and of those beside us; memory in tf32."""
    timed = [row for row in rows if row["section"] in ("layer", "step")]
    heads = (
        "float32",
        "tf32",
        "bf16",
        "called, tf32",
        "published",
        "textbook",
        "cuFFT alone",
        "scan",
        "bytes alone",
        "MiB: ours, textbook",
    )
    yield line("ms, a graph replayed", *heads)
    yield "|---" * (1 + len(heads)) + "|"
    for name in dict.fromkeys(row["row"] for row in timed):
        of = {row["precision"]: row for row in timed if row["row"] == name}
        own = [_barred(of[p]["ours"]["graph"], of[p]["bar"], of[p]["met"]) if p in of else "" for p in PRECISIONS]
        row = of["high"]
        called = _barred(row["ours"]["eager"], row.get("eager_bar"), row.get("eager_met"))
        beside = [number(_time(row.get(kind))) for kind in ("textbook", "cufft", "scan")]
        memory = f"{row['ours']['bytes'] / 2**20:.0f}, {row['textbook']['bytes'] / 2**20:.0f}"
        yield line(name, *own, called, number(row["published"]), *beside, number(row["floor"]), memory)


def errors(rows: list[Row]) -> Iterator[str]:
    """Of values, and of every gradient; and, where it was measured, how long it takes to be so precise."""
    rows = [row for row in rows if row["section"] == "errors"]
    timed = any(row.get("ours") for row in rows)
    names = list(dict.fromkeys(name for row in rows for name in row["errors"]))
    heads = [{"y": "values", "du": "input"}.get(name, f"`{name}`") for name in names]
    heads = ["mode", *(["ms"] if timed else []), *heads]
    yield line("relative error, 16384 steps", *heads)
    yield "|---" * (1 + len(heads)) + "|"
    for row in rows:
        found = [f"{row['errors'][name]:.0e}" if name in row["errors"] else "" for name in names]
        ms = [number(_time(row.get("ours")))] if timed else []
        yield line(row["row"], PRECISIONS[row["precision"]], *ms, *found)


def streams(rows: list[Row]) -> Iterator[str]:
    """Steps a second."""
    yield "| steps a second | `step` | `stepper` |"
    yield "|---|---|---|"
    for row in (row for row in rows if row["section"] == "stream"):
        yield line(row["row"], f"{row['step']:.0f}", f"{row['stepper']:.0f}")


def profiles(rows: list[Row]) -> Iterator[str]:
    """Kernels of a pass, and what keeps the host busy."""
    yield "| pass, tf32 | on | where its time goes, microseconds (calls) | together |"
    yield "|---|---|---|---|"
    for row in (row for row in rows if row["section"] == "profile"):
        for place, what in {"the card": row["kernels"], "the host": row.get("host", {})}.items():
            parts = {name: value for name, value in what.items() if not name.startswith("Activity")}
            if parts:
                longest = (f"`{name[:40]}` {1e3 * ms:.0f} ({count})" for name, (ms, count) in list(parts.items())[:8])
                yield line(row["row"], place, ", ".join(longest), f"{sum(1e3 * ms for ms, _ in parts.values()):.0f}")


TABLES = {"speed": speed, "errors": errors, "streams": streams, "profiles": profiles}


def _barred(value: float, bar: float | None, met: bool | None) -> str:
    """A time, and its bar behind it; bold where it is missed."""
    shown = number(value) if met or bar is None else f"**{number(value)}**"
    return shown if bar is None else f"{shown} ({bar:.3g})"


def _time(measured: dict[str, float] | None) -> float | None:
    return None if measured is None else measured.get("graph") or measured.get("eager")


def number(value: float | None) -> str:
    """Three digits, and no decimals beyond 100."""
    return "" if value is None else f"{value:.3g}" if value < 100 else f"{value:.0f}"


def line(*cells: str) -> str:
    """A row of a table."""
    return "| " + " | ".join(cells) + " |"
