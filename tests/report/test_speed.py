"""The figure of the GPU's benchmark, from an invented record."""

import json
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest

from wellposed.errors import RecordError
from wellposed.report import save_speed
from wellposed.report._speed import times


def row(section: str, name: str, precision: str, ours: float, **others: Any) -> dict[str, Any]:
    measured = {"graph": ours, "eager": 2 * ours, "bytes": 1}
    usual = {"textbook": {"graph": 4.0, "eager": 5.0}, "floor": 0.1, "published": 3.0, "bar": None, "met": None}
    return {"section": section, "row": name, "precision": precision, "ours": measured} | usual | others


ROWS = [
    row("layer", "S4-PTD, small", "highest", 0.6, cufft={"graph": 0.8, "eager": 0.9}),
    row("layer", "S4-PTD, small", "high", 0.5, cufft={"graph": 0.8, "eager": 0.9}),
    row("layer", "S4-PTD, small", "bf16", 0.3),
    row(
        "layer",
        "S5-PTD, small",
        "high",
        4.0,
        textbook={"graph": 9.0},
        scan={"graph": None, "eager": 7.0},
        published=None,
    ),
    row("step", "sCIFAR step", "high", 30.0, published=90.0),
    {"section": "step", "row": "that failed", "precision": "-", "failed": "OutOfMemoryError"},
    {"section": "errors", "row": "S4-PTD", "precision": "high", "errors": {"y": 1e-3}},
]


def test_times_are_those_of_the_record():
    assert times(ROWS, "layer") == {
        "S4-PTD, small": {
            "textbook": 4.0, "published": 3.0, "cufft": 0.8, "highest": 0.6, "high": 0.5, "floor": 0.1
        },
        "S5-PTD, small": {"textbook": 7.0, "high": 4.0, "floor": 0.1},
    }  # fmt: skip
    assert times(ROWS, "step") == {"sCIFAR step": {"textbook": 4.0, "published": 90.0, "high": 30.0, "floor": 0.1}}


def test_the_figure_says_what_it_shows(tmp_path: Path):
    record = tmp_path / "record.json"
    record.write_text(json.dumps({"rows": ROWS}), encoding="utf-8")
    text = save_speed(record, tmp_path / "speed.svg").read_text(encoding="utf-8")
    ElementTree.fromstring(text)
    said = " ".join(re.findall(r"<text[^>]*>([^<]*)</text>", text))
    for expected in ("S4-PTD, small", "0.5 ms, 6.0 x faster", "30 ms, 3.0 x faster", "ours, tf32", "moving the bytes"):
        assert expected in said
    assert "4 ms," not in said  # nothing published, nothing claimed
    assert "currentColor" in text


def test_what_cannot_be_drawn_says_what_to_run(tmp_path: Path):
    record = tmp_path / "record.json"
    with pytest.raises(RecordError, match=r"run 'python benchmarks/gpu\.py"):
        save_speed(record, tmp_path / "speed.svg")
    for damaged in ("{", "{}", '{"rows": 3}', '{"rows": []}', '{"rows": [{}]}'):
        record.write_text(damaged, encoding="utf-8")
        with pytest.raises(RecordError, match="again"):
            save_speed(record, tmp_path / "speed.svg")
