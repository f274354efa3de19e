"""The benchmark of training runs, at a size without meaning."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from subprocesses import environment

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "train.py"


def test_tiny(tmp_path: Path):
    command = [sys.executable, str(BENCHMARK), "--tiny", "--record", str(tmp_path / "record.json")]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    record = json.loads((tmp_path / "record.json").read_text())
    assert [row["precision"] for row in record["rows"]] == ["tf32", "bf16"]
    assert all(len(row["epochs"]) > 1 and row["bare_ms"] > 0 for row in record["rows"])
    assert [row["precision"] for row in record["accuracy"]] == ["float32", "tf32", "bf16"]
    assert all(0 <= a <= 1 for row in record["accuracy"] for a in row["test_accuracy"])
    assert record["provenance"]["command"].startswith("python benchmarks/train.py --tiny")
