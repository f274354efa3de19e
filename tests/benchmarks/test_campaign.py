"""The plan of what is left to train: steps in order, each going on where it stopped, none stopping the others."""

from __future__ import annotations

import runpy
from pathlib import Path

from subprocesses import python
from wellposed.presets import PRESETS, preset
from wellposed.records import load_record
from wellposed.train import load_run

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "campaign.py"
CODE = f"import runpy; runpy.run_path({str(SCRIPT)!r}, run_name='__main__')"


def test_every_step_is_of_presets_that_there_are():
    script = runpy.run_path(str(SCRIPT))
    named = [word for step in script["PLAN"] for word in step.about.split() if word.startswith("lra-")]
    assert {name.removesuffix("-padding-seed0") for name in named} <= PRESETS.keys()
    config = script["easier"]("s5ptd", Path("runs"), "easy", after="alone", epochs=2, level="easy", count=1000)
    assert (config.start, config.data.options["level"]) == (str(Path("runs") / "alone"), "easy")
    assert config.model == preset("lra-pathfinder-s5ptd").model
    assert script["padded"]("lra-text-s4ptd", 32, Path()).model["norm_padding"] is True


def test_the_plan_is_shown_and_mistyped_steps_are_named():
    shown = python(CODE, "text").stdout.splitlines()
    assert [line.split(maxsplit=1)[1] for line in shown] == [
        "train lra-text-s4ptd-padding-seed0",
        "reproduce lra --full --only lra-text-s4ptd --precision bf16 --epochs 40 --seeds 0",
    ]
    mistyped = python(CODE, "texts")
    assert mistyped.returncode != 0
    assert "texts is no step of the plan: pathfinder-s5ptd, text" in mistyped.stderr


def test_a_step_without_its_data_is_left(tmp_path: Path):
    for name in ("runs", "data", "records"):
        (tmp_path / name).mkdir()
    places = [f"--{name}={tmp_path / name}" for name in ("runs", "data", "records")]
    done = python(CODE, "text", *places, "--minutes", "1", "--device", "cpu")
    assert done.returncode == 0, done.stderr
    assert "text is left: " in done.stdout
    assert done.stdout.count("minutes at most") == 2  # the next one was tried all the same


def test_a_slice_goes_through_the_steps_and_the_next_one_goes_on(tmp_path: Path):
    (tmp_path / "data").mkdir()
    places = [f"--{name}={tmp_path / name}" for name in ("runs", "data", "records")]
    options = ("pathfinder-s5ptd", *places, "--device", "cpu", "--tiny")
    done = python(CODE, *options, "--minutes", "5")
    assert done.returncode == 0, done.stderr
    (row,) = load_record(tmp_path / "records" / "lra-full.json").data["rows"]
    assert "start = pathfinder-s5ptd-medium" in row["changed"]
    medium = load_run(tmp_path / "runs" / "pathfinder-s5ptd-medium")
    assert medium.config.start == str(tmp_path / "runs" / "pathfinder-s5ptd-easy")
    again = python(CODE, *options, "--minutes", "5")
    assert again.returncode == 0, again.stderr
    assert load_run(medium.folder).seconds == medium.seconds
    late = python(CODE, *options, "--minutes", "0.1")
    assert "the time is up before pathfinder-s5ptd, train pathfinder-s5ptd-alone" in late.stdout
