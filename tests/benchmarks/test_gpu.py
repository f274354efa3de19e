"""The GPU's benchmark runs, at sizes without meaning; what it compares with computes what our layers compute."""

from __future__ import annotations

import importlib
import json
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from subprocesses import environment
from wellposed.nn import S4, S4D, S4PTD, S5, S5PTD

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("gpu")


@pytest.fixture
def textbook(gpu: ModuleType) -> ModuleType:
    return sys.modules["textbook"]


@pytest.mark.parametrize("length", [1, 2, 33, 64])
@pytest.mark.parametrize(
    ("make", "options"),
    [(S4D, {"n_ssm": 2}), (S4PTD, {"bidirectional": True}), (S4, {}), (S5, {}), (S5PTD, {"bidirectional": True})],
)
@pytest.mark.parametrize("how", ["fft", "scan"])
def test_the_textbook_computes_the_same(textbook: ModuleType, make: Any, options: Any, how: str, length: int):
    """Values and all gradients, in float64."""
    layer = make(4, 8, dtype=torch.float64, seed=0, **options)
    u, w = torch.randn(2, 2, length, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    u.requires_grad_()
    found, right = textbook.Textbook(layer, how)(u), layer(u)
    torch.testing.assert_close(found, right, rtol=0, atol=1e-11)
    inputs = [u, *layer.parameters()]
    for a, b in zip(torch.autograd.grad(found, inputs, w), torch.autograd.grad(right, inputs, w), strict=True):
        assert float((a - b).norm()) < 1e-10 * float(b.norm())


@pytest.mark.parametrize(
    "section",
    ["layer", *(pytest.param(s, marks=pytest.mark.slow) for s in ("step", "errors", "stream", "long", "profile"))],
)
def test_a_row_of_each_section(gpu: ModuleType, section: str):
    first = gpu.SECTIONS[section][1][0]
    rows = list(gpu.rows_of(section, "cpu", True, first.name))
    assert rows
    for row in rows:
        assert row["section"] == section
        assert "failed" not in json.dumps(row)
    if section in ("layer", "step"):
        assert [row["precision"] for row in rows] == ["highest", "high", "bf16"]
        assert all(row["ours"]["eager"] > 0 and row["textbook"]["eager"] > 0 and row["floor"] > 0 for row in rows)
    if section == "errors":
        exact, _, rounded = (max(row["errors"].values()) for row in rows)
        assert exact < 5e-6
        assert 1e-4 < rounded < 0.1
        assert {"y", "du", "A_imag", "log_dt", "B", "C", "D"} <= rows[0]["errors"].keys()
    gpu.table(rows)


def test_what_fails_says_so_and_loses_nothing(gpu: ModuleType, monkeypatch: pytest.MonkeyPatch):
    def fail(case: Any, device: str) -> Any:
        raise MemoryError("of that size")

    cases = gpu.SECTIONS["long"][1]
    monkeypatch.setitem(gpu.SECTIONS, "long", (fail, cases + cases))
    rows = list(gpu.rows_of("long", "cpu", True, ""))
    assert [row["failed"] for row in rows] == ["MemoryError: of that size"] * 2
    found = gpu.measure(lambda: fail(None, "cpu"), "cpu")
    assert (found["eager"], found["failed"]) == (None, "MemoryError: of that size")


def test_bars_are_held_against_the_graph(gpu: ModuleType):
    assert (gpu._met(0.3, 0.4), gpu._met(0.5, 0.4), gpu._met(None, 0.4), gpu._met(0.3, None)) == (
        True,
        False,
        None,
        None,
    )


@pytest.mark.slow
def test_the_whole_of_it(tmp_path: Path):
    record = tmp_path / "record.json"
    command = [sys.executable, str(BENCHMARKS / "gpu.py"), "--tiny", "--record", str(record)]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(record.read_text(encoding="utf-8"))
    sections = {"layer", "step", "errors", "stream", "long", "profile", "compile"}
    assert {row["section"] for row in found["rows"]} == sections
    assert "failed" not in record.read_text(encoding="utf-8")
    assert found["provenance"]["command"].startswith("python benchmarks/gpu.py --tiny")
    assert "S5-PTD both ways, 32 x 16384 x 128" in done.stdout.split("milliseconds")[1]


def test_the_tables_of_the_page_are_those_of_the_record(gpu: ModuleType, tmp_path: Path):
    record, page = BENCHMARKS.parent / "results/bench-gpu-h200.json", BENCHMARKS.parent / "docs/devdocs/gpu.md"
    shutil.copy(page, tmp_path / "gpu.md")
    importlib.import_module("page").fill(record, tmp_path / "gpu.md")
    assert (tmp_path / "gpu.md").read_text() == page.read_text()
