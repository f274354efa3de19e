"""The page of the presets is what the presets say now."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from subprocesses import environment
from wellposed.presets import PRESETS
from wellposed.presets._page import COMMAND, measured, page

ROOT = Path(__file__).parents[2]


def test_the_page_is_current():
    found = (ROOT / "docs" / "presets.md").read_text(encoding="utf-8")
    assert found == page(ROOT / "results"), f"run {COMMAND}"
    for name in PRESETS:
        assert f"| `{name}` |" in found


def test_the_command_writes_the_page(tmp_path: Path):
    (tmp_path / "results").mkdir()
    command = [sys.executable, *COMMAND.split()[1:-1], "page.md"]
    subprocess.run(command, cwd=tmp_path, env=environment(), check=True)
    assert (tmp_path / "page.md").read_text(encoding="utf-8").startswith("# Presets\n")


def test_our_accuracies_come_from_records(tmp_path: Path):
    def write(file: str, name: str, accuracy: float) -> None:
        (tmp_path / file).write_text(json.dumps({"config": {"name": name}, "test": {"accuracy": accuracy}}))

    write("one.json", "lra-text-s5ptd", 0.8)
    write("two.json", "lra-text-s5ptd", 0.9)
    (tmp_path / "other.json").write_text('{"data": {"x": [1]}, "experiment": "pareto"}')
    assert measured(tmp_path) == {"lra-text-s5ptd": 90.0}
    assert "| 89.41 | 90.00 |" in page(tmp_path)
