"""Runs that began with one another, as a table."""

from __future__ import annotations

import json
from pathlib import Path

from subprocesses import python
from training_toys import config, splits
from wellposed.train import run

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "benchmarks" / "stages.py"


def test_the_page_on_weights_to_start_from_says_what_the_record_says():
    text = (ROOT / "docs" / "howto" / "start-from.md").read_text(encoding="utf-8")
    stages = json.loads((ROOT / "results" / "stages-pathfinder.json").read_text(encoding="utf-8"))["rows"]
    table = text[text.index("| pictures | seen |") :].splitlines()[2 : 2 + len(stages)]
    for line, row in zip(table, stages, strict=True):
        told = [cell.strip() for cell in line.strip("|").split("|")][1:]
        assert told == [f"{row['sequences']:,}", f"{row['device_minutes']:.1f}", f"{100 * row['val_accuracy']:.1f}"]
        assert f"--epochs {row['epochs']}" in text
    assert f"{100 * stages[-1]['test_accuracy']:.1f} %" in text
    assert f"{stages[-1]['parameters']:,} parameters" in text
    card = json.loads((ROOT / "src/wellposed/weights/lra-pathfinder-s5ptd-small/card.json").read_text(encoding="utf-8"))
    assert [stage["name"] for stage in card["before"]] == [row["name"] for row in stages[:-1]]
    assert (card["accuracy"], card["seed"]) == (stages[-1]["test_accuracy"], stages[-1]["seed"])


def test_a_stage_that_was_made_again_came_to_the_same():
    """As the page says: the same config, another commit, another time."""
    first, again = (
        json.loads((ROOT / "results" / f"{name}.json").read_text(encoding="utf-8"))["rows"][0]
        for name in ("stages-pathfinder", "rerun-pathfinder-cpu")
    )
    assert first["provenance"]["date"] != again["provenance"]["date"]
    assert first["provenance"]["commit"] != again["provenance"]["commit"]
    assert [first[key] for key in ("config", "seed", "curve")] == [again[key] for key in ("config", "seed", "curve")]


def test_stages_are_told_of_in_their_order(tmp_path: Path):
    first, second = tmp_path / "first", tmp_path / "second"
    run(config(), first, datasets=splits(), device="cpu", progress=False, summary=False)
    done = run(config(start=str(first)), second, datasets=splits(), device="cpu", progress=False, summary=False)
    code = f"import runpy; runpy.run_path({str(SCRIPT)!r}, run_name='__main__')"
    told = python(code, "first", "second", "--record", "stages.json", cwd=tmp_path)
    assert told.returncode == 0, told.stderr
    rows = json.loads((tmp_path / "stages.json").read_text())["rows"]
    assert [row["name"] for row in rows] == ["first", "second"]
    assert [row["sequences"] for row in rows] == [72, 72]  # three steps of 8 an epoch, three epochs
    weights = json.loads((first / "final" / "config.json").read_text())["sha256"]
    assert [row["start"] for row in rows] == [None, weights]
    assert rows[1]["test_accuracy"] == round(done.test_metrics["accuracy"], 6)
    assert python(code, "first", "--record", "one.json", cwd=tmp_path).returncode == 0
    assert python(code, "second", "--after", "one.json", "--record", "both.json", cwd=tmp_path).returncode == 0
    assert json.loads((tmp_path / "both.json").read_text())["rows"] == rows
    other = python(code, "second", "--after", str(first / "config.json"), cwd=tmp_path)
    assert "tells of no stages: name a file that this script has written" in other.stderr
    missing = python(code, "nowhere", cwd=tmp_path)
    assert missing.returncode != 0
    assert "stages: nowhere is no folder of a run" in missing.stderr
