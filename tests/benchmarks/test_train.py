"""The benchmark of training runs, at a size without meaning."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from subprocesses import python

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "train.py"


@pytest.mark.slow
def test_tiny(tmp_path: Path):
    as_a_script = f"import runpy, sys; sys.path[0], sys.argv[0] = {str(BENCHMARK.parent)!r}, {str(BENCHMARK)!r}"
    code = f"{as_a_script}; runpy.run_path(sys.argv[0], run_name='__main__')"
    done = python(code, "--tiny", "--record", "record.json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    record = json.loads((tmp_path / "record.json").read_text())
    assert [row["precision"] for row in record["rows"]] == ["tf32", "bf16"]
    assert all(len(row["epochs"]) > 1 and row["bare_ms"] > 0 for row in record["rows"])
    assert [row["precision"] for row in record["accuracy"]] == ["float32", "tf32", "bf16"]
    assert all(0 <= a <= 1 for row in record["accuracy"] for a in row["test_accuracy"])
    assert record["provenance"]["command"].startswith("python benchmarks/train.py --tiny")
