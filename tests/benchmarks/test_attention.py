"""The benchmark of the other rows of the LRA table, at a size without meaning."""

from __future__ import annotations

import importlib
import json
import shutil
from pathlib import Path

import pytest

from subprocesses import python

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "attention.py"


@pytest.mark.slow
def test_tiny(tmp_path: Path):
    as_a_script = f"import runpy, sys; sys.path[0], sys.argv[0] = {str(BENCHMARK.parent)!r}, {str(BENCHMARK)!r}"
    code = f"{as_a_script}; runpy.run_path(sys.argv[0], run_name='__main__')"
    done = python(code, "--tiny", "--record", "record.json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    record = json.loads((tmp_path / "record.json").read_text())
    assert set(record["growth"]) == {"full", "hierarchical", "luna", "flexconv"}
    trained = {row["case"] for row in record["rows"] if row["section"] == "training"}
    assert trained == {"s4ptd", "transformer", "h-transformer", "luna", "ccnn", "ccnn-small"}
    assert [row["ours"]["failed"] for row in record["rows"] if "failed" in row["ours"]] == []
    assert all(row["ours"]["eager"] > 0 for row in record["rows"])
    assert record["provenance"]["command"].startswith("python benchmarks/attention.py --tiny")


def test_the_tables_of_the_page_are_those_of_the_records(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    page = BENCHMARK.parents[1] / "docs/baselines.md"
    shutil.copy(page, tmp_path)
    monkeypatch.syspath_prepend(str(BENCHMARK.parent))
    importlib.import_module("baselines_page").fill(tmp_path / page.name)
    assert (tmp_path / page.name).read_text(encoding="utf-8") == page.read_text(encoding="utf-8")
