"""Shapes that are known before there are data, against the data: as measured, and as small tasks are loaded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from wellposed.data import TASKS, load
from wellposed.errors import UnknownNameError
from wellposed.presets import SHAPES, shape_of

MEASURED: dict[str, Any] = json.loads((Path(__file__).parents[2] / "results" / "datasets.json").read_text("utf-8"))
RECORDED = [task for task in SHAPES if task in MEASURED]


@pytest.mark.parametrize("task", RECORDED)
def test_shapes_are_those_of_the_record(task: str):
    record = MEASURED[task]
    shape, splits = shape_of(task, record["parameters"]), record["splits"]
    assert shape.vocabulary == record["vocabulary"]
    assert (shape.train, shape.val) == (splits["train"]["items"], splits["val"]["items"])
    if "classes" in splits["train"]:
        assert shape.outputs == len(splits["train"]["classes"])
    if "mean length" in splits["train"]:
        mean = shape.mean_length or shape.length
        assert mean == pytest.approx(splits["train"]["mean length"], rel=0.01)
    if "mean" in splits["train"]:
        assert shape.channels == len(splits["train"]["mean"])


@pytest.mark.parametrize(
    ("task", "options"),
    [
        ("sinusoids", {"count": 40, "steps": 50, "grid": (2, 2)}),
        ("toy", {"length": 20, "channels": 3, "classes": 5, "train": 30, "val": 7}),
        ("toy", {"vocabulary": 9, "pairs": True}),
    ],
)
def test_options_change_the_shape(task: str, options: dict[str, Any], tmp_path: Path):
    train, val = (load(task, tmp_path, split, **options) for split in ("train", "val"))
    shape = shape_of(task, options)
    assert shape.sizes == dict(train.sizes)
    assert (shape.train, shape.val, shape.length, shape.pairs) == (
        len(train),
        len(val),
        train.info.length,
        train.info.pairs,
    )


def test_every_task_has_a_shape():
    assert SHAPES.keys() == TASKS.keys()
    assert shape_of("scifar", {"colour": "grey"}).sizes == {"d_input": 1, "d_output": 10}
    assert shape_of("text", {"length": 100}).steps == 100
    assert shape_of("retrieval").steps == 8000
    with pytest.raises(UnknownNameError, match="did you mean 'scifar'"):
        shape_of("cifar")
