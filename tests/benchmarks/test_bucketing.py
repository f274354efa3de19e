"""The benchmark of batches of one length, on a few sequences."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from subprocesses import python

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "bucketing.py"


@pytest.mark.slow
def test_tiny(tmp_path: Path):
    code = f"import runpy; runpy.run_path({str(BENCHMARK)!r}, run_name='__main__')"
    few = ("--tiny", "--items", "20", "--settle", "2", "--steps", "1")
    done = python(code, *few, "--record", "record.json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    record = json.loads((tmp_path / "record.json").read_text())
    rows = {(row["steps"], row.get("batches"), row["statistics"]): row for row in record["rows"]}
    assert list(rows) == [
        (0, None, "running"), (0, None, "alike"), (0, None, "mixed"), (0, "alike", "running"), (0, "mixed", "running"),
        (1, "alike", "running"), (1, "mixed", "running"),
    ]  # fmt: skip
    # One batch holds all of them: batches of either kind are the same, and their statistics not the running ones.
    assert rows[0, None, "alike"]["loss"] == pytest.approx(rows[0, None, "mixed"]["loss"], rel=1e-5)
    assert rows[0, None, "alike"]["loss"] != pytest.approx(rows[0, None, "running"]["loss"], rel=1e-3)
    assert all(row["accuracy"] > 0.25 for row in rows.values())  # always saying 0 has 0.17
    assert record["provenance"]["command"].startswith("python benchmarks/bucketing.py --tiny")


def test_the_page_has_the_numbers_of_the_records():
    root = BENCHMARK.parents[1]
    text = " ".join((root / "docs/devdocs/decisions.md").read_text(encoding="utf-8").split())
    for name in ("bucketing", "settled", "bucketing-mixed"):
        for row in json.loads((root / f"results/{name}.json").read_text(encoding="utf-8"))["rows"]:
            assert f"| {100 * row['accuracy']:.1f} | {row['loss']:.3f} |" in text, (name, row)
