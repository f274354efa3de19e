"""The plan of what is left to train: steps in order, each going on where it stopped, none stopping the others."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from subprocesses import python
from training_toys import config, splits
from wellposed.presets import PRESETS, preset
from wellposed.records import load_record
from wellposed.train import load_run, run

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "campaign.py"
CODE = f"import runpy; runpy.run_path({str(SCRIPT)!r}, run_name='__main__')"


def test_every_step_is_of_presets_that_there_are():
    script = runpy.run_path(str(SCRIPT))
    named = [word for step in script["PLAN"] for word in step.about.split() if word.startswith("lra-")]
    assert {name.removesuffix("-padding-seed0") for name in named} <= PRESETS.keys()
    easy = script["easier"]("s5ptd", "easy", epochs=2, level="easy", count=1000)
    assert (easy.data.options["level"], easy.epochs) == ("easy", 2)
    assert easy.model == preset("lra-pathfinder-s5ptd").model
    padded, usual = script["padded"]("lra-text-s4ptd", 40), preset("lra-text-s4ptd")
    assert padded.model == {**usual.model, "norm_padding": True}
    assert padded.epochs == 40 < usual.epochs


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
    assert done.stdout.count("text is left: ") == 2  # the next one was tried all the same
    assert (done.returncode, done.stderr) == (1, "campaign: no step could be worked on\n")


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--minutes", "nan"), "--minutes nan leaves no time"),
        (("--minutes", "0"), "--minutes 0.0 leaves no time"),
        (("--device", "gpuu"), "gpuu"),
        (("--records", "nowhere/records"), "there is no folder nowhere"),
        (("--records", "file"), "File exists: 'file'"),
    ],
)
def test_a_call_that_is_wrong_is_refused_before_the_first_step(options: tuple[str, ...], told: str, tmp_path: Path):
    (tmp_path / "file").touch()
    done = python(CODE, "text", "--runs", "runs", *options, cwd=tmp_path)
    assert done.returncode != 0
    assert told in done.stderr
    assert "Traceback" not in done.stderr
    assert "minutes at most" not in done.stdout


def test_a_step_waits_for_the_run_that_it_begins_with(tmp_path: Path):
    """Until that is finished, and has learnt enough."""
    script = runpy.run_path(str(SCRIPT))
    finished, NotYetError = script["_finished"], script["NotYetError"]
    with pytest.raises(NotYetError, match="is not begun yet"):
        finished(tmp_path / "first")
    options = {"datasets": splits(), "device": "cpu", "progress": False, "summary": False}
    run(config(), tmp_path / "first", minutes=1e-6, **options)
    with pytest.raises(NotYetError, match="first is not finished yet"):
        finished(tmp_path / "first")
    done = run(config(), tmp_path / "first", **options)
    assert finished(tmp_path / "first").folder == done.folder
    with pytest.raises(NotYetError, match=r"first tells \d+\.\d% on validation, and 110% is the least"):
        finished(tmp_path / "first", least=1.1)


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
