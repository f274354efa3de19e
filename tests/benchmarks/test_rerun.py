"""A run is made again from the line of a record, in a process of its own."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

import pytest

from subprocesses import python
from wellposed.experiments import run_full, save_record
from wellposed.records import load_record

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "benchmarks" / "rerun.py"
RUN = "lra-listops-s5ptd-2epochs-seed3"


@pytest.mark.parametrize("experiment", ["ablation", "failure-modes", "lra", "robustness"])
def test_the_config_of_every_run_in_the_records_is_found_again(experiment: str):
    """Or its preset has changed since, which the record of the table says too."""
    script = runpy.run_path(str(SCRIPT))
    record = load_record(ROOT / "results" / f"{experiment}-full.json")
    for line in record.data["runs"]:
        if "as the preset was before" in line["changed"]:
            continue
        job = script["job_of"](record, line)
        assert (job.name, job.config.seed, job.config.epochs) == (line["name"], line["seed"], line["of_epochs"])


def test_what_has_no_accuracy_is_not_compared():
    path = ROOT / "results" / "failure-modes-full.json"
    with pytest.raises(SystemExit, match="predicts numbers"):
        runpy.run_path(str(SCRIPT))["finished_line"](path, load_record(path), "sinusoids-extrap-s4d-seed0")


@pytest.mark.slow
def test_a_run_gives_the_same_accuracy_again(tmp_path: Path):
    (tmp_path / "data").mkdir()
    record = run_full(
        "lra",
        runs=tmp_path / "runs",
        data=tmp_path / "data",
        device="cpu",
        tiny=True,
        seeds=[3],
        epochs=2,
        only=["lra-listops-s5ptd"],
    )
    path = save_record(record, tmp_path)
    code = f"import runpy; runpy.run_path({str(SCRIPT)!r}, run_name='__main__')"
    options = ("--data", "data", "--device", "cpu", "--record", "rerun.json")
    done = python(code, path.name, RUN, *options, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (row,) = json.loads((tmp_path / "rerun.json").read_text())["rows"]
    assert row["then"]["accuracy"] == row["now"]["accuracy"] == record.data["runs"][0]["test"]["accuracy"]
    assert (row["run"], row["seed"], row["of_epochs"], row["points"], row["met"]) == (RUN, 3, 2, 0.0, True)

    missing = python(code, path.name, "lra-listops-s5", *options, cwd=tmp_path)
    assert missing.returncode
    assert f"no finished run lra-listops-s5, but of {RUN}" in missing.stderr
    lines = json.loads(path.read_text())
    lines["data"]["runs"][0]["config"] = "0123456789ab"
    path.write_text(json.dumps(lines))
    other = python(code, path.name, RUN, *options, cwd=tmp_path)
    assert other.returncode
    assert "was of another config" in other.stderr
