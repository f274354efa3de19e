"""The page of a training run: drawn from what lies in its folder, and saying it plainly."""

from __future__ import annotations

import json
import re
import warnings
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from run_folder import layer, make
from wellposed.errors import RecordError
from wellposed.report import save_run_summary
from wellposed.report._run_page import _duration, _period


def words(page: str) -> str:
    """What a reader sees outside of the figures."""
    page = re.sub(r"<(style|svg)\b.*?</\1>", " ", page, flags=re.DOTALL)
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", page)).split())


def drawn(folder: Path) -> str:
    return save_run_summary(folder).read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    return drawn(make(tmp_path_factory.mktemp("runs") / "waves"))


def test_nothing_is_loaded_from_elsewhere(page: str):
    loaded = re.findall(r'(?:src|href)="([^"#][^"]*)"|url\(([^#)][^)]*)\)', page)
    assert {a or b for a, b in loaded} <= {"data:,"}
    assert "<script" not in page
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert len(ids) == len(set(ids))


def test_the_result_stands_first(page: str):
    seen = words(page)
    assert (
        "test accuracy 86.25% of epoch 3, the best on the validation split: training 91.00%, validation 87.00%" in seen
    )
    assert "30 → 60 before and after training; layer 3, channel 2" in seen
    assert "certified: nothing in the channels tried exceeds 60" in seen
    assert "13 min 1,234 parameters, 12 steps" in seen
    assert seen.index("86.25%") < seen.index("How it learnt") < seen.index("The worst-case response")
    assert "flatters" not in seen


def test_names_are_text_and_not_markup(page: str):
    assert "waves-<run>" in words(page)
    assert "<run>" not in page


def test_what_was_trained_and_where(page: str):
    seen = words(page)
    assert "data.task waves" in seen
    assert "model.d_model 8" in seen
    assert "from step 6, on 1 x cuda:0" in seen
    assert page.count("<figure") == 3


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"selected_on": "test"}, "chosen on the test split itself: this number flatters"),
        ({"finished": False, "test": {}, "epochs": 2}, "not finished: after 2 of 4 epochs"),
        ({"finished": False, "test": {}}, "validation accuracy 87.00%"),
        ({"stopped": "no better result in 5 evaluations"}, "epochs: no better result in 5 evaluations"),
        ({"test": {"loss": 0.01234, "mse_a": 1.0}, "best": {"val": {"loss": 0.5}}}, "test loss 0.01234"),
        ({"finished": False, "test": {}, "best": {}, "best_epoch": None}, "no result yet"),
        ({"processes": 4}, "x 4"),
    ],
)
def test_other_ends(changes: dict[str, Any], expected: str, tmp_path: Path):
    assert expected in words(drawn(make(tmp_path / "run", layers=0, **changes)))


@pytest.mark.slow
def test_what_is_not_there_is_left_out(tmp_path: Path):
    folder = make(tmp_path / "run")
    layers = [layer() | {"before": None}, layer(upper=None), layer() | {"bidirectional": True}]
    layers[2]["after"]["response"] = None
    (folder / "analysis.json").write_text(json.dumps({"layers": layers}))
    seen = words(drawn(folder))
    assert "(not certified)" in seen
    assert "the part that reads forward" in seen
    for name in ("analysis.json", "metrics.jsonl", "environment.json"):
        (folder / name).unlink()
    assert "86.25%" in words(drawn(folder))


def test_curves_of_one_epoch_and_of_flat_layers_draw_without_a_warning(tmp_path: Path):
    folder = make(tmp_path / "run")
    (folder / "metrics.jsonl").write_text('{"kind": "epoch", "step": 3, "epoch": 1, "val_loss": 1.0, "lr": 0.0}\n')
    flat = layer()
    for when in ("before", "after"):
        flat[when]["eigenvalues"] = [[-1.0, -1.0], [0.0, 0.0]]
        flat[when]["dt"] = [0.01]
        flat[when]["response"]["largest"] = [1.0] * 41
        flat[when]["response"]["worst"][0].update(value=1.0, cycles=0.0)
    (folder / "analysis.json").write_text(json.dumps({"layers": [flat]}))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert "a constant input" in words(drawn(folder))


def test_damage_is_named(tmp_path: Path):
    with pytest.raises(RecordError, match=r"has no record\.json"):
        save_run_summary(tmp_path)
    folder = make(tmp_path / "run", layers=0)
    (folder / "analysis.json").write_text("[1]")
    with pytest.raises(RecordError, match="damaged"):
        save_run_summary(folder)
    (folder / "record.json").write_text("{")
    with pytest.raises(RecordError, match=r"record\.json is no record of a run"):
        save_run_summary(folder)


def test_numbers_in_words():
    assert [_duration(s) for s in (0.61, 99.0, 754.2, 7300.0, 90000.0)] == [
        "0.6 s",
        "99.0 s",
        "13 min",
        "2.0 h",
        "25.0 h",
    ]
    assert [_period(c) for c in (0.0, 0.5, 0.01)] == ["a constant input", "a wave of 2 steps", "a wave of 100 steps"]
