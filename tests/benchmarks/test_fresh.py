"""Models that travel, measured on fresh sequences: the script, and what a page says of its record."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from subprocesses import python
from wellposed.records import load_record

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "benchmarks" / "fresh.py"


def test_the_page_on_noise_says_what_the_record_says():
    text = (ROOT / "docs" / "howto" / "noise.md").read_text(encoding="utf-8")
    record = json.loads((ROOT / "results" / "fresh-listops.json").read_text(encoding="utf-8"))
    rows = {found[0]: found[1].split(" | ") for found in re.findall(r"^\| (.*?) \| (.*) \|$", text, re.MULTILINE)}
    accuracies = [found for name, found in re.findall(r"^\| (accuracy, %) \| (.*) \|$", text, re.MULTILINE)]
    by_frequency, by_amplitude = ([float(cell) for cell in row.split(" | ")] for row in accuracies)
    sweep = record["sweep"]
    assert [float(cell) for cell in rows["frequency"]] == [each["frequency"] for each in sweep["frequencies"]]
    assert by_frequency == [round(100 * each["accuracy"], 1) for each in sweep["frequencies"]]
    changes = [float(cell) for cell in rows["scores change by, %"]]
    assert changes == [round(100 * each["change"]) for each in sweep["frequencies"]]
    amplitudes = [float(cell) for cell in rows["amplitude, at frequency 1"]]
    assert amplitudes == [each["amplitude"] for each in sweep["amplitudes"]]
    assert by_amplitude == [round(100 * each["accuracy"], 1) for each in sweep["amplitudes"]]
    assert f"tells {100 * sweep['clean']:.1f} %" in text
    assert f"tells {100 * record['row']['clean']:.2f} % ({100 * record['row']['deviation']:.1f} by chance)" in text

    models = load_record(ROOT / "results/certificates-full.json").data["models"]
    (model,) = (model for model in models if model["name"] == "lra-listops-s5ptd-bf16-seed0")
    before, after = (model[when]["layers"] for when in ("before", "after"))
    assert f"certified to be {max(layer['value'] for layer in before):.1f}; after it, it is" in text
    assert f"after it, it is {max(layer['value'] for layer in after):.0f}," in text
    assert sum(layer["cycles"] < 1e-9 for layer in after) == 7
    assert max(layer["cycles"] for layer in after) == 1.10999e-05


def test_a_model_is_measured_on_as_many_as_one_likes(tmp_path: Path):
    code = f"import runpy; runpy.run_path({str(SCRIPT)!r}, run_name='__main__')"
    options = ("lra-listops-s5ptd", "--sizes", "test=24", "--seed", "5", "--record", "fresh.json")
    done = python(code, *options, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    record = json.loads((tmp_path / "fresh.json").read_text())
    row = record["row"]
    assert row["items"] == 24
    assert 0.15 < row["clean"] <= 1  # ten classes
    assert row["deviation"] == round((row["clean"] * (1 - row["clean"]) / 24) ** 0.5, 6)
    assert record["provenance"]["seed"] == 5
    assert "sweep" not in record


@pytest.mark.parametrize(
    ("size", "told"),
    [("items=24", "unknown option of listops 'items'"), ("test=many", "test=many: give a size as NAME=NUMBER")],
)
def test_sizes_that_mean_nothing_are_refused_in_words(tmp_path: Path, size: str, told: str):
    code = f"import runpy; runpy.run_path({str(SCRIPT)!r}, run_name='__main__')"
    done = python(code, "lra-listops-s5ptd", "--sizes", size, cwd=tmp_path)
    assert done.returncode != 0
    assert told in done.stderr
    assert "Traceback" not in done.stderr
