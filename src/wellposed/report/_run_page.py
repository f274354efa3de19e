"""``summary.html`` of a training run: what was trained, what came out, and what became of the layers."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, NamedTuple

from wellposed._files import write_whole
from wellposed.errors import RecordError
from wellposed.records import Record, load_record
from wellposed.report._page import render
from wellposed.report._run_plots import Row, curves, responses, spectra
from wellposed.report._style import to_svg

_FLATTERS = "The best epoch was chosen on the test split itself: this number flatters the model."
_SPLITS = {"train": "training", "val": "validation", "test": "test"}

_RESPONSES = (
    "A wave of amplitude 1 goes into a layer; the curve is the amplitude that comes out of its loudest channel. A "
    "spike is a frequency at which a small disturbance comes out large. Dots, and the numbers above, are suprema over "
    "all frequencies, between the points of the curve too: of the channels that were worst on the curve."
)
_BOTH_WAYS = " Of layers that read both ways, it is the part that reads forward."
_SPECTRA = (
    "Each circle is an eigenvalue of continuous time, one of each pair: further right it forgets more slowly, further "
    "up it turns faster. Beside them the steps dt, which set how long a channel remembers: about 1/dt steps."
)


class Figure(NamedTuple):
    """A picture and what it shows."""

    title: str
    text: str
    svg: str


def save_run_summary(run: str | os.PathLike[str]) -> Path:
    """Draw ``summary.html`` into a run's folder, from what lies there; the page needs nothing but itself.

    Spectra and responses are drawn where ``analysis.json`` is there; ``wellposed.train.summarize`` writes it first.
    """
    folder = Path(run)
    record = _record(folder)
    try:
        found = _json(folder / "analysis.json").get("layers", [])
        layers = [layer | {"number": number} for number, layer in enumerate(found, 1)]
        page = render(
            "run.html.jinja",
            record=record,
            result=_result(record.data),
            worst=_worst(layers),
            figures=[*_curves(folder, record.data), *_pictures(layers)],
            layers=[_layer_row(layer) for layer in layers],
            config=list(_flat(record.data["config"])),
            slices=_json(folder / "environment.json").get("slices", []),
            duration=_duration(record.provenance["seconds"]),
        )
    except (KeyError, ValueError, TypeError, IndexError, AttributeError, RecursionError, OSError) as error:
        raise RecordError(
            f"what {folder} holds of a run is damaged, or of another version ({type(error).__name__}: {error})"
        ) from None
    return write_whole(folder / "summary.html", page)


def _record(folder: Path) -> Record:
    path = folder / "record.json"
    if not path.exists():
        raise RecordError(
            f"{folder} has no {path.name}, which a run writes when it stops or ends: is it a run's folder?"
        )
    try:
        return load_record(path)
    except RecordError as error:
        raise RecordError(f"{path} is no record of a run: {error}") from None


def _json(path: Path) -> dict[str, Any]:
    """The object in a file; empty where there is none."""
    found = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    if not isinstance(found, dict):
        raise ValueError(f"{path.name} holds no object")
    return found


def _rows(path: Path) -> list[Row]:
    """Metrics; a line that was cut off is passed over."""
    rows = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines() if path.exists() else ():
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            continue
        rows.extend([row] if isinstance(row, dict) and "step" in row else [])
    return rows


def _result(data: Row) -> dict[str, str]:
    """The headline: a number, what it is, and how its epoch was chosen."""
    chosen, on = data["best_epoch"], data["selected_on"]
    split = "test" if data["test"] else on
    found = data["test"] or data["best"].get(on, {})
    name = "accuracy" if "accuracy" in found else "loss"
    stopped = f": {data['stopped']}" if data["stopped"] else ""
    state = f"after {data['epochs']} of {data['config']['epochs']} epochs"
    return {
        "number": _shown(name, found[name]) if found else "no result yet",
        "what": f"{_SPLITS.get(split, split)} {name}" if found else "",
        "others": ", ".join(
            f"{_SPLITS.get(where, where)} {_shown(which, value)}"
            for where, some in data["best"].items()
            for which, value in some.items()
            if which == name
        ),
        "chosen": f"of epoch {chosen}, the best on the {_SPLITS.get(on, on)} split" if chosen else "",
        "warning": _FLATTERS if on == "test" else "",
        "state": f"finished {state}{stopped}" if data["finished"] else f"not finished: {state}",
    }


def _shown(name: str, value: float) -> str:
    return f"{value:.2%}" if name == "accuracy" else f"{value:.4g}"


def _peaks(layers: list[Row], when: str) -> list[tuple[int, Row]]:
    """The worst channel of each layer that has a response, with the layer's number."""
    found = [(layer["number"], (layer[when] or {}).get("response")) for layer in layers]
    return [(number, response["worst"][0]) for number, response in found if response]


def _worst(layers: list[Row]) -> dict[str, str] | None:
    """The worst of all layers after training, and before; ``None`` for a model without such layers."""
    if not (after := _peaks(layers, "after")):
        return None
    number, peak = max(after, key=lambda each: each[1]["value"])
    before = max((each["value"] for _, each in _peaks(layers, "before")), default=None)
    return {
        "value": f"{peak['value']:.3g}",
        "before": "" if before is None else f"{before:.3g}",
        "where": f"layer {number}, channel {peak['channel']}, {_period(peak['cycles'])}",
        "certificate": "not certified: the largest seen" if peak["upper"] is None
        else f"certified: nothing in the channels tried exceeds {peak['upper']:.5g}",
    }  # fmt: skip


def _period(cycles: float) -> str:
    return "a constant input" if cycles < 1e-7 else f"a wave of {1 / cycles:.4g} steps"


def _layer_row(layer: Row) -> dict[str, Any]:
    """One line of the table."""
    dt = layer["after"]["dt"]
    cells = {when: _cell(layer[when]) for when in ("before", "after")}
    return {"number": layer["number"], "kind": layer["kind"], **cells, "dt": f"{min(dt):.2g} to {max(dt):.2g}"}


def _cell(found: Row | None) -> str:
    response = (found or {}).get("response")
    if not response:
        return "–"
    peak = response["worst"][0]
    mark = "" if peak["upper"] is not None else " (not certified)"
    return f"{peak['value']:.4g} at {_period(peak['cycles'])}{mark}"


def _curves(folder: Path, data: Row) -> list[Figure]:
    rows = _rows(folder / "metrics.jsonl")
    if not rows:
        return []
    text = "Loss and accuracy after each epoch, and the learning rate. The dotted line is the epoch that was chosen."
    return [Figure("How it learnt", text, to_svg(curves(rows, data["best_epoch"]), "curves"))]


def _pictures(layers: list[Row]) -> list[Figure]:
    figures = []
    answering = [layer for layer in layers if (layer["after"] or {}).get("response")]
    both = _BOTH_WAYS if any(layer["bidirectional"] for layer in layers) else ""
    if answering:
        text = f"{_RESPONSES}{both}"
        figures.append(Figure("The worst-case response", text, to_svg(responses(answering), "responses")))
    spectral = [layer for layer in layers if (layer["after"] or {}).get("eigenvalues")]
    if spectral:
        figures.append(Figure("The spectra", _SPECTRA, to_svg(spectra(spectral), "spectra")))
    return figures


def _flat(values: Row, prefix: str = "") -> Any:
    """Fields of a config by their full names."""
    for name, value in values.items():
        if isinstance(value, dict) and value:
            yield from _flat(value, f"{prefix}{name}.")
        elif value not in (None, "", {}, []):
            yield f"{prefix}{name}", str(value)


def _duration(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.1f} s"
    minutes, hours = round(seconds / 60), seconds / 3600
    return f"{minutes} min" if minutes < 120 else f"{hours:.1f} h"
