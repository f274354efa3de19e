"""``wellposed train``, ``eval`` and ``runs``, and ``python -m wellposed.train``, as a user meets them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from subprocesses import python
from wellposed.cli import main
from wellposed.cli._overrides import spelled_out
from wellposed.cli.train import train
from wellposed.presets import PRESETS, describe, preset
from wellposed.presets._measured import _finished
from wellposed.train import load_run
from wellposed.train.__main__ import main as plain

BLOCKED = ("tyro", "rich", "pydantic", "numba", "PIL", "matplotlib", "jinja2", "control", "beartype", "hypothesis")
"""What ``python -m wellposed.train`` has to do without."""


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with data and two small runs, one of S4D and one of S4-PTD."""
    place = tmp_path_factory.mktemp("work")
    (place / "data").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        main(["train", "tiny-scifar-s4d", "--data", "data", "--run", "plain", "--optimizer.lr", "0.003"])
        main(["train", "tiny-scifar-s4ptd", "--data", "data", "--run", "perturbed", "--epochs=1"])
    return place


def test_train_takes_every_field(workplace: Path):
    first = load_run(workplace / "runs" / "plain")
    assert first.finished
    assert first.config == preset("tiny-scifar-s4d").replace(
        optimizer=preset("tiny-scifar-s4d").optimizer.replace(lr=0.003)
    )
    assert load_run(workplace / "runs" / "perturbed").config.epochs == 1


def test_records_of_runs_are_what_the_page_of_presets_reads(workplace: Path):
    record = json.loads((workplace / "runs" / "plain" / "record.json").read_text(encoding="utf-8"))
    as_if = record | {"data": record["data"] | {"config": preset("scifar-s4d").to_dict()}}
    accuracy = load_run(workplace / "runs" / "plain").test_metrics["accuracy"]
    assert _finished(as_if) == (preset("scifar-s4d"), accuracy)


def test_train_goes_on_where_it_was_stopped(
    workplace: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(workplace)
    command = ["train", "tiny-sinusoids-extrap-s4ptd", "--data", "data", "--run", "sliced", "--epochs", "3"]
    main([*command, "--minutes", "0.000001"])
    assert "stopped; the same command goes on with it" in capsys.readouterr().out
    main(command)
    out = capsys.readouterr().out
    assert "finished after 3 of 3 epochs" in out
    assert "test: loss" in out


def test_summary_draws_the_page_of_a_run(
    workplace: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(workplace)
    page = workplace / "runs" / "plain" / "summary.html"
    assert page.exists()  # a run draws it when it is finished
    page.unlink()
    main(["summary", "plain"])
    assert capsys.readouterr().out.strip() == f"summary: {Path('runs', 'plain', 'summary.html')}"
    assert "worst-case response" in page.read_text(encoding="utf-8")
    with pytest.raises(SystemExit, match="no folder of a run"):
        main(["summary", "nothing"])


def test_runs_are_listed_and_compared(
    workplace: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(workplace)
    main(["runs"])
    listed = capsys.readouterr().out.splitlines()
    assert listed[0].split() == ["run", "task", "epochs", "best", "val", "test", "time"]
    assert {line.split()[0] for line in listed[1:]} >= {"plain", "perturbed"}
    main(["runs", str(workplace / "runs"), "--compare"])
    table = capsys.readouterr().out.split("differs in", 1)[1]
    rows = {line.split()[0]: line.split()[1:] for line in table.splitlines()[1:]}
    order = table.splitlines()[0].split()
    assert dict(zip(order, rows["model.layer"], strict=True))["plain"] == "s4d"
    assert dict(zip(order, rows["optimizer.lr"], strict=True))["plain"] == "0.003"
    assert "seed" not in rows


@pytest.mark.slow
def test_sweeps_train_every_combination_and_are_listed(
    workplace: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(workplace)
    job = ["--over", "optimizer.lr=0.001,0.01", "--over", "seed=0", "--epochs", "1", "--data", "data", "--run", "rates"]
    main(["sweep", "tiny-scifar-s4d", *job, "--at-once", "1"])
    assert capsys.readouterr().out == "runs/rates: 2 finished\n"
    assert load_run("runs/rates/lr=0.01").config.optimizer.lr == 0.01
    main(["runs", "rates"])
    listed = capsys.readouterr().out.splitlines()
    assert listed[0].split() == ["run", "epochs", "best", "val", "test", "time"]
    assert [line.split()[:2] for line in listed[1:]] == [["lr=0.001", "1/1"], ["lr=0.01", "1/1"]]
    main(["runs", "rates", "--compare"])
    assert capsys.readouterr().out.splitlines()[-1].split() == ["optimizer.lr", "0.001", "0.01"]
    main(["runs"])
    assert capsys.readouterr().out.splitlines()[-1] == "rates: a sweep, 2 finished, 0 left"
    # the other spelling of the command goes on with the same sweep
    plain(["tiny-scifar-s4d", "--over", "optimizer.lr=0.001,0.01", "seed=0", "--set", "epochs=1", *job[-4:]])
    assert capsys.readouterr().out == "runs/rates: 2 finished\n"


def test_a_sweep_is_shown_before_it_is_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    over = ["--over", "optimizer.betas=(0.9,0.99),(0.9,0.999)", "--over=seed=0,1"]
    main(["sweep", "scifar-s4d", *over, "--dry-run"])
    lines = capsys.readouterr().out.splitlines()
    names = ["betas=0.9+0.99,seed=0", "betas=0.9+0.99,seed=1", "betas=0.9+0.999,seed=0", "betas=0.9+0.999,seed=1"]
    assert lines[:6] == ["4 runs", *(f"  {name}" for name in names), ""]
    plain(["scifar-s4d", *over, "--dry-run"])
    assert capsys.readouterr().out.splitlines() == lines
    assert list(tmp_path.iterdir()) == []


def test_a_run_that_cannot_be_read_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "config.json").write_text("{", encoding="utf-8")
    main(["runs", str(tmp_path)])
    assert capsys.readouterr().out.startswith(f"not listed: {tmp_path / 'mine' / 'config.json'} is damaged")


def test_no_runs_is_no_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    main(["runs", str(tmp_path)])
    assert capsys.readouterr().out.startswith(f"no runs in {tmp_path}: 'wellposed train PRESET' makes one")


def test_eval_measures_with_noise_and_without(
    workplace: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(workplace)
    found = load_run(workplace / "runs" / "plain").test_metrics
    main(["eval", "plain", "--data", "data"])
    clean = capsys.readouterr().out
    assert f"accuracy     {found['accuracy']:.2%}" in clean
    assert f"loss         {found['loss']:.4g}" in clean
    main(["eval", "runs/plain", "--data", "data", "--split", "test", "--noise", "layer", "--frequency", "325.4"])
    noisy = capsys.readouterr().out
    assert "test with noise on the layer, amplitude 0.1" in noisy
    assert noisy.splitlines()[1] != clean.splitlines()[1]


def test_dry_run_shows_and_trains_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    main(["train", "lra-text-s5ptd", "--dry-run", "--optimizer.lr", "0.003"])
    config = preset("lra-text-s5ptd")
    assert capsys.readouterr().out.splitlines() == describe(
        config.replace(optimizer=config.optimizer.replace(lr=0.003))
    )
    assert list(tmp_path.iterdir()) == []


def test_without_a_name_presets_are_listed(capsys: pytest.CaptureFixture[str]):
    main(["train"])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[: len(PRESETS)]] == list(PRESETS)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "lra-txt-s5ptd"], "unknown preset 'lra-txt-s5ptd'; did you mean 'lra-text-s5ptd'"),
        (["train", "scifar-s4d", "--optimiser.lr", "1"], "unknown field 'optimiser'; did you mean 'optimizer'"),
        (["train", "scifar-s4d", "--optimizer.rate", "1"], "unknown field of optimizer 'rate'"),
        (["train", "scifar-s4d", "--epoch", "1"], "unknown option '--epoch'; did you mean '--epochs'"),
        (["train", "scifar-s4d", "--minuts", "1"], "unknown option '--minuts'; did you mean '--minutes'"),
        (["train", "scifar-s4d", "--epochs", "many"], "epochs must be a whole number, got 'many'"),
        (["train", "scifar-s4d", "--epochs"], "--epochs needs a value"),
        (["train", "scifar-s4d", "--epochs", "0"], "epochs must be at least 1, got 0"),
        (["train", "scifar-s4d", "--model.layer_options.d_sate", "8"], "did you mean 'd_state'"),
        (["train", "scifar-s4d", "--set", "epochs"], "a setting is written KEY=VALUE"),
        (["train", "scifar-s4d", "--data", "nowhere"], "there is no folder nowhere"),
        (["train", "scifar-s4d", "--device", "cup"], "unknown device 'cup'; did you mean 'cpu'"),
        (["train", "scifar-s4d", "--devices", "0"], "devices must be at least 1, got 0"),
        (["train", "scifar-s4d", "--nodes", "0"], "num_nodes must be at least 1, got 0"),
        (["train", "scifar-s4d", "--strategy", "dpp"], "invalid strategy name: `--strategy dpp`"),
        (["train", "scifar-s4d", "--run", ""], "a run needs a name"),
        (["sweep", "scifar-s4d"], "a sweep goes over something: --over optimizer.lr=0.001,0.01"),
        (["sweep", "scifar-s4d", "--over", "seed=1", "--over", "seed=2"], "--over seed comes twice"),
        (["sweep", "scifar-s4d", "--over", "sed=1,2"], "unknown field 'sed'; did you mean 'seed'"),
        (["sweep", "scifar-s4d", "--over", "seed=1", "--epoch", "2"], "unknown option '--epoch'"),
        (["eval", "nothing"], "runs/nothing is no folder of a run"),
        (["eval", "nothing", "--amplitude", "1"], "add --noise layer, or --noise input"),
    ],
)
def test_mistakes_get_a_clear_line(arguments: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert message in str(stopped.value)


def test_options_are_spelled_in_any_way():
    given = ["x", "--model.d-model=8", "--set", "a=1", "b=2", "--no-fresh", "--dry-run", "--schedule.floor", "-1"]
    assert spelled_out(train, given) == [
        "x", "--no-fresh", "--dry-run", "--set", "model.d_model=8", "a=1", "b=2", "schedule.floor=-1",
    ]  # fmt: skip
    assert spelled_out(train, ["--help"]) == ["--help"]


@pytest.mark.slow
def test_training_without_the_packages_of_the_command_line(tmp_path: Path):
    blocked = f"import sys; sys.modules.update(dict.fromkeys({BLOCKED}))"
    code = f"{blocked}; import runpy; sys.argv[0] = 'train'; runpy.run_module('wellposed.train', run_name='__main__')"
    (tmp_path / "data").mkdir()
    job = ["tiny-lra-text-s5ptd", "--set", "optimizer.lr=0.003", "epochs=1", "--data", "data", "--minutes", "9"]
    done = python(code, *job, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "finished after 1 of 1 epochs" in done.stdout
    (folder,) = (tmp_path / "runs").iterdir()
    assert json.loads((folder / "config.json").read_text())["optimizer"]["lr"] == 0.003


def test_the_plain_command_says_the_same(capsys: pytest.CaptureFixture[str]):
    plain(["lra-text-s5ptd", "--dry-run", "--set", "epochs=3"])
    assert capsys.readouterr().out.splitlines() == describe(preset("lra-text-s5ptd").replace(epochs=3))
    plain([])
    assert len(capsys.readouterr().out.splitlines()) > len(PRESETS)
    with pytest.raises(SystemExit, match="wellposed: unknown field 'epoch'; did you mean 'epochs'"):
        plain(["lra-text-s5ptd", "--set", "epoch=3"])
