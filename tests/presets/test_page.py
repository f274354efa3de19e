"""The page of the presets is what the presets say now."""

from __future__ import annotations

import json
from pathlib import Path

from subprocesses import python
from wellposed.presets import PRESETS, preset
from wellposed.presets._measured import measured
from wellposed.presets._page import COMMAND, _rows
from wellposed.train import RunConfig

ROOT = Path(__file__).parents[2]


def test_the_page_is_what_its_command_writes(tmp_path: Path):
    _, option, module, _ = COMMAND.split()
    assert option == "-m"
    code = f"import runpy; runpy.run_module({module!r}, run_name='__main__', alter_sys=True)"
    done = python(code, "page.md", "--results", str(ROOT / "results"), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = (ROOT / "docs" / "presets.md").read_text(encoding="utf-8")
    assert found == (tmp_path / "page.md").read_text(encoding="utf-8"), f"run {COMMAND}"
    for name in PRESETS:
        assert f"| `{name}` |" in found


def write(file: Path, config: RunConfig, accuracy: float, **facts: object) -> None:
    data = {"config": config.to_dict(), "finished": True, "test": {"accuracy": accuracy}} | facts
    file.write_text(json.dumps({"experiment": file.stem, "data": data}), encoding="utf-8")


def test_our_accuracies_come_from_records(tmp_path: Path):
    text, listops, image = (preset(f"lra-{task}-s5ptd") for task in ("text", "listops", "image"))
    write(tmp_path / "a.json", text, 0.8)
    write(tmp_path / "b.json", text.replace(seed=1), 0.9)
    write(tmp_path / "c.json", text.replace(epochs=80), 0.99)  # not what the preset is
    write(tmp_path / "d.json", listops.replace(epochs=3), 0.5)
    write(tmp_path / "e.json", image, 0.7, finished=False)
    (tmp_path / "other.json").write_text('{"data": {"x": [1]}, "experiment": "pareto"}', encoding="utf-8")
    (tmp_path / "rows.json").write_text('{"rows": []}', encoding="utf-8")
    told = {"name": "seed0", "date": "2026-01-01 10:00 UTC", "preset": "lra-image-s4ptd", "changed": ""}
    told |= {"test": {"accuracy": 0.6}, "finished": True}
    other_start = {"changed": "model.layer_options.gamma = 10.0, epochs = 12", "test": {"accuracy": 0.9}}
    left_out = [{"finished": False}, {"preset": "tiny-lra-image-s4ptd"}, other_start]
    runs = [told, *(told | {"name": f"out{i}"} | facts for i, facts in enumerate(left_out))]
    for experiment in ("lra-full", "certificates-full"):  # both tell of the same runs
        table = {"experiment": experiment, "data": {"form": "full", "runs": runs}}
        (tmp_path / f"{experiment}.json").write_text(json.dumps(table), encoding="utf-8")
    assert measured(tmp_path) == {
        "lra-text-s5ptd": "85.00 (2 seeds)",
        "lra-listops-s5ptd": "50.00 (epochs 3)",
        "lra-image-s4ptd": "60.00",
    }
    *_, row = _rows([PRESETS["lra-text-s5ptd"]], measured(tmp_path))
    assert row.endswith("| 89.41 | 85.00 (2 seeds) |")
