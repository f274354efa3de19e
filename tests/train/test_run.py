"""Whole runs: resumed to the bit, in slices, stopped early, and what they leave."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from training_toys import MODEL, config, course, slopes, splits, waves, weights, words
from wellposed.data import SequenceDataset
from wellposed.data._rows import FixedRows
from wellposed.errors import ArgumentError, DeviceMemoryError, NotFiniteError, RecordError, UnknownNameError
from wellposed.nn import SequenceClassifier, fourier_noise
from wellposed.records import load_record
from wellposed.train import (
    DataConfig,
    EvaluationConfig,
    OptimizerConfig,
    RunConfig,
    ScheduleConfig,
    evaluate,
    list_runs,
    load_run,
    run,
)
from wellposed.train import _loop as loop
from wellposed.train._checkpoint import LAST, PREVIOUS, read_checkpoint
from wellposed.train._course import Course
from wellposed.train._objective import Objective

SLOW = pytest.mark.slow
QUIET: Any = {"device": "cpu", "progress": False}


def stop_after(monkeypatch: pytest.MonkeyPatch, checks: int) -> None:
    """Let the time be up when it is looked at for the so-manieth time: after each step, and after each epoch."""
    left = iter([False] * (checks - 1) + [True] * 1000)
    monkeypatch.setattr(loop, "_passed", lambda deadline: next(left))


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """The folder of a run that nothing has stopped."""
    done: dict[str, Path] = {}

    def folder(config: RunConfig, datasets: dict[str, SequenceDataset]) -> Path:
        key = f"{config}{datasets['train']}"
        if key not in done:
            done[key] = tmp_path_factory.mktemp("runs") / "undisturbed"
            run(config, done[key], datasets=datasets, **QUIET)
        return done[key]

    return folder


# --- resuming


@pytest.mark.parametrize("checks", range(1, 9))
def test_a_run_stopped_anywhere_goes_on_to_the_same_bits(checks, undisturbed, tmp_path, monkeypatch):
    right = undisturbed(config(), splits())
    torch.manual_seed(1)
    stop_after(monkeypatch, checks)
    result = run(config(), tmp_path / "run", datasets=splits(), minutes=1, **QUIET)
    assert not result.finished
    monkeypatch.undo()
    torch.manual_seed(2)  # what others have drawn does not matter
    result = run(config(), tmp_path / "run", datasets=splits(), **QUIET)
    assert result.finished
    assert weights(tmp_path / "run") == weights(right)
    assert course(tmp_path / "run") == course(right)
    assert result.test_metrics == load_run(right).test_metrics


@pytest.mark.parametrize(
    ("changes", "make"),
    [
        ({"schedule": ScheduleConfig(name="plateau", patience=0)}, waves),
        pytest.param({"model": MODEL | {"norm": "batch", "layer": "s5"}}, waves, marks=SLOW),
        ({"data": DataConfig(task="toys", batch_size=5, drop_last=False)}, words),
        pytest.param({"optimizer": OptimizerConfig(clip=0.1, frozen=("A_imag",)), "ema": None}, slopes, marks=SLOW),
        pytest.param({}, lambda seed: words(seed=seed, pairs=True), marks=SLOW),
        pytest.param({"model": MODEL | {"norm": "batch"}, "evaluation": EvaluationConfig(settle=2)}, words, marks=SLOW),
    ],
    ids=["plateau", "batch norm", "lengths", "numbers", "pairs", "settled"],
)
def test_a_slice_a_step_gives_the_same_bits(changes, make, undisturbed, tmp_path, monkeypatch):
    right = undisturbed(config(**changes), splits(make))
    slices, finished = 0, False
    while not finished:
        stop_after(monkeypatch, 1)
        result = run(config(**changes), tmp_path / "run", datasets=splits(make), minutes=1, **QUIET)
        finished, slices = result.finished, slices + 1
    assert slices >= 9
    assert weights(tmp_path / "run") == weights(right)
    assert course(tmp_path / "run") == course(right)


def test_rows_every_so_many_steps_survive_too(undisturbed, tmp_path, monkeypatch):
    monkeypatch.setattr(loop, "LOG_EVERY", 2)
    run(config(), tmp_path / "right", datasets=splits(), **QUIET)
    stop_after(monkeypatch, 5)
    run(config(), tmp_path / "run", datasets=splits(), minutes=1, **QUIET)
    with (tmp_path / "run/metrics.jsonl").open("a") as file:
        file.write('{"kind": "step", "step": 7, "epoch": 3}\n{"kind": "st')  # after the checkpoint, and cut off
    monkeypatch.setattr(loop, "_passed", lambda deadline: False)
    run(config(), tmp_path / "run", datasets=splits(), **QUIET)
    rows = course(tmp_path / "right")
    assert course(tmp_path / "run") == rows
    assert [(row["kind"], row["step"]) for row in rows] == [
        ("step", 2), ("epoch", 3), ("step", 4), ("step", 6), ("epoch", 6), ("step", 8), ("epoch", 9)
    ]  # fmt: skip
    # A row tells of the steps since the last one of the same epoch: those of steps 5 and 6, and of step 4 alone.
    assert 24 * rows[4]["train_loss"] == pytest.approx(8 * rows[2]["train_loss"] + 16 * rows[3]["train_loss"])


def test_a_finished_run_is_not_run_again(undisturbed):
    right = undisturbed(config(), splits())
    before = {path: path.stat().st_mtime_ns for path in right.rglob("*.*") if path.name != "config.json"}
    again = run(config(), right, datasets=splits(), **QUIET)
    assert again == load_run(right)
    assert all(path.stat().st_mtime_ns == time for path, time in before.items())


def test_a_damaged_checkpoint_costs_nothing_but_time(undisturbed, tmp_path, monkeypatch):
    right, changed = undisturbed(config(), splits()), config(checkpoint_minutes=0)
    stop_after(monkeypatch, 6)
    run(changed, tmp_path / "run", datasets=splits(), minutes=1, **QUIET)
    monkeypatch.undo()
    last = tmp_path / "run/checkpoints" / LAST
    last.write_bytes(last.read_bytes()[:-7])
    with pytest.warns(UserWarning, match=f"{LAST} is damaged.*going on from .*{PREVIOUS}"):
        run(changed, tmp_path / "run", datasets=splits(), **QUIET)
    assert weights(tmp_path / "run") == weights(right)
    assert course(tmp_path / "run") == course(right)


def test_another_config_is_refused_with_the_difference(undisturbed, tmp_path):
    right = undisturbed(config(), splits())
    with pytest.raises(ArgumentError, match=r"another config: epochs was 3, is 4, optimizer.lr was 0.004, is 0.01"):
        run(config(epochs=4, optimizer=OptimizerConfig(lr=0.01)), right, datasets=splits(), **QUIET)
    run(config(note="said later", checkpoint_minutes=1), right, datasets=splits(), **QUIET)
    run(config(), right, datasets=splits(), **QUIET)


def test_a_run_that_never_began_may_be_given_another_config(tmp_path):
    with pytest.raises(ArgumentError, match="no split 'val'"):
        run(config(epochs=5), tmp_path / "run", datasets={"train": waves()}, **QUIET)
    result = run(config(epochs=1), tmp_path / "run", datasets=splits(), **QUIET)
    assert (result.finished, load_run(tmp_path / "run").config.epochs) == (True, 1)


def test_beginning_anew_leaves_other_files_alone(tmp_path):
    run(config(epochs=1), tmp_path / "run", datasets=splits(), **QUIET)
    (tmp_path / "run/mine.txt").write_text("keep")
    result = run(config(epochs=2), tmp_path / "run", datasets=splits(), resume=False, **QUIET)
    assert result.epoch == 2
    assert [row["epoch"] for row in course(tmp_path / "run")] == [1, 2]
    assert (tmp_path / "run/mine.txt").read_text() == "keep"


def test_beginning_anew_removes_nothing_that_no_run_has_made(tmp_path):
    """``best``, ``final`` and ``config.json`` are names that others give too."""
    (tmp_path / "best").mkdir()
    (tmp_path / "best/thesis.tex").write_text("keep")
    (tmp_path / "config.json").write_text('{"mine": 1}')
    with pytest.raises(RecordError, match=r"holds best, config.json, but no run"):
        run(config(epochs=1), tmp_path, datasets=splits(), resume=False, **QUIET)
    (tmp_path / "config.json").unlink()
    with pytest.raises(RecordError, match=r"but best, as runs have: choose another folder$"):
        run(config(epochs=1), tmp_path, datasets=splits(), **QUIET)
    assert (tmp_path / "best/thesis.tex").read_text() == "keep"


def test_beginning_anew_with_a_damaged_config(tmp_path):
    run(config(epochs=1), tmp_path / "run", datasets=splits(), **QUIET)
    (tmp_path / "run/config.json").write_text("{")
    assert run(config(epochs=1), tmp_path / "run", datasets=splits(), resume=False, **QUIET).finished


def test_a_run_whose_checkpoints_are_damaged_is_not_taken_for_a_new_one(tmp_path, monkeypatch):
    stop_after(monkeypatch, 1)
    run(config(), tmp_path / "run", datasets=splits(), minutes=1, **QUIET)
    for path in (tmp_path / "run/checkpoints").glob("*.safetensors"):
        path.write_bytes(b"nothing")
    with pytest.raises(RecordError, match="damaged"):
        load_run(tmp_path / "run")
    assert list_runs(tmp_path) == []


def test_smoothing_is_for_classes(tmp_path):
    numbers = {split: slopes() for split in ("train", "val")}
    with pytest.raises(ArgumentError, match=r"label_smoothing = 0.1 is for classes"):
        run(config(label_smoothing=0.1), tmp_path / "run", datasets=numbers, **QUIET)


def test_memory_of_a_cpu_that_does_not_suffice_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(Objective, "loss", lambda *_: torch.empty(2**50))
    with pytest.raises(DeviceMemoryError, match=r"a batch of 8 does not fit .* data.batch_size = 4"):
        run(config(), tmp_path / "run", datasets=splits(), **QUIET)


def test_other_data_are_refused(tmp_path, monkeypatch):
    stop_after(monkeypatch, 1)
    run(config(), tmp_path / "run", datasets=splits(), minutes=1, **QUIET)
    with pytest.raises(RecordError, match=r"made with other data: .*'count': 24.*'count': 32"):
        run(config(), tmp_path / "run", datasets=splits(count=32), **QUIET)


def test_two_runs_do_not_share_a_folder(tmp_path):
    class Nosy(SequenceDataset):
        def __len__(self) -> int:
            if not tried:
                tried.append(True)
                with pytest.raises(RecordError, match="another run is at work in"):
                    run(config(), tmp_path / "run", datasets=splits(), **QUIET)
            return super().__len__()

    plain, tried = waves(), [True]
    nosy = Nosy(plain.info, plain.split, plain.rows, plain.y)
    tried.clear()
    run(config(epochs=1), tmp_path / "run", datasets=splits() | {"train": nosy}, **QUIET)
    assert tried


# --- what a run does


def test_the_best_epoch_is_what_is_published_and_tested(tmp_path):
    result = run(config(epochs=6), tmp_path / "run", datasets=splits(), **QUIET)
    rows = [row for row in course(result.folder) if row["kind"] == "epoch"]
    accuracies = [row["val_accuracy"] for row in rows]
    assert result.best_epoch == 1 + accuracies.index(max(accuracies))
    assert result.metrics["val"]["accuracy"] == max(accuracies)
    assert all("test_loss" not in row for row in rows)
    found = evaluate(result, splits()["test"])
    assert found == pytest.approx(result.test_metrics, rel=1e-5)
    assert evaluate(result, splits()["val"]) == pytest.approx(result.metrics["val"], rel=1e-5)
    model = result.model()
    assert isinstance(model, SequenceClassifier)
    assert not model.training


def test_it_learns(tmp_path):
    data = {split: waves(64, seed) for seed, split in enumerate(("train", "val", "test"))}
    quick = config(epochs=12, ema=None, optimizer=OptimizerConfig(lr=0.02, ssm_lr=0.02), model=MODEL | {"dropout": 0.0})
    result = run(quick, tmp_path / "run", datasets=data, **QUIET)
    assert result.test_metrics["accuracy"] > 0.9


def test_early_stopping(tmp_path):
    still = config(
        epochs=9, ema=None, optimizer=OptimizerConfig(lr=0, ssm_lr=0), evaluation=EvaluationConfig(patience=2)
    )
    result = run(still, tmp_path / "run", datasets=splits(), **QUIET)
    assert (result.epoch, result.best_epoch, result.finished) == (3, 1, True)
    assert load_record(result.folder / "record.json").data["stopped"] == "no better result in 2 evaluations"
    assert run(still, tmp_path / "run", datasets=splits(), **QUIET) == load_run(tmp_path / "run")


def test_choosing_on_the_test_split_is_written_down(tmp_path):
    chosen = config(evaluation=EvaluationConfig(select_on="test"))
    data = {split: some for split, some in splits().items() if split != "val"}
    result = run(chosen, tmp_path / "run", datasets=data, **QUIET)
    record = load_record(result.folder / "record.json")
    assert record.data["selected_on"] == "test"
    assert "chosen on the test split" in record.finding
    rows = [row for row in course(result.folder) if row["kind"] == "epoch"]
    assert max(row["test_accuracy"] for row in rows) == result.test_metrics["accuracy"]


@pytest.mark.parametrize(
    ("evaluation", "val", "test"),
    [(EvaluationConfig(every=2), [2, 4, 5], []), (EvaluationConfig(test_every=2), [1, 2, 3, 4, 5], [2, 4])],
)
def test_evaluations_when_they_are_asked_for(evaluation, val, test, tmp_path):
    result = run(config(epochs=5, evaluation=evaluation), tmp_path / "run", datasets=splits(), **QUIET)
    rows = [row for row in course(result.folder) if row["kind"] == "epoch"]
    assert [row["epoch"] for row in rows if "val_loss" in row] == val
    assert [row["epoch"] for row in rows if "test_loss" in row] == test


def test_epochs_are_kept_as_they_were_judged(undisturbed, tmp_path, monkeypatch):
    """Also where a run is stopped in between, and without changing what is learnt."""
    keep = config(evaluation=EvaluationConfig(keep=(1, 3)))
    stop_after(monkeypatch, 5)
    assert not run(keep, tmp_path / "kept", datasets=splits(), **QUIET).finished
    monkeypatch.undo()
    done = run(keep, tmp_path / "kept", datasets=splits(), **QUIET)
    assert weights(done.folder) == weights(undisturbed(config(), splits()))
    assert sorted(path.name for path in (done.folder / "epochs").iterdir()) == ["0001", "0003"]
    told = {row["epoch"]: row["val_loss"] for row in done.rows() if row["kind"] == "epoch"}
    for epoch in (1, 3):
        assert evaluate(done.model_at(epoch), splits()["val"])["loss"] == pytest.approx(told[epoch], rel=1e-6)
    assert evaluate(done.model_at(0), splits()["val"])["loss"] != pytest.approx(told[1], rel=1e-5)
    with pytest.raises(ArgumentError, match="from 1"):
        EvaluationConfig(keep=(0,))


def test_plateau_lowers_the_rate(tmp_path):
    slow = ScheduleConfig(name="plateau", factor=0.1, patience=0, warmup_epochs=0)
    still = config(epochs=4, ema=None, schedule=slow, optimizer=OptimizerConfig(lr=1e-9, ssm_lr=0))
    result = run(still, tmp_path / "run", datasets=splits(), **QUIET)
    rates = [row["lr"] for row in course(result.folder) if row["kind"] == "epoch"]
    assert rates == pytest.approx([1e-9, 1e-10, 1e-11, 1e-12], rel=1e-6)


@pytest.mark.parametrize("make", [waves, words, slopes])
def test_evaluation_does_not_depend_on_the_size_of_batches(make, tmp_path):
    data = make(30)
    result = run(config(epochs=1), tmp_path / "run", datasets=splits(make), **QUIET)
    one, *others = (evaluate(result, data, batch_size=size) for size in (30, 1, 7, 64))
    for other in others:
        assert other == pytest.approx(one, rel=1e-5)


def test_evaluation_with_noise(tmp_path):
    result = run(config(epochs=1), tmp_path / "run", datasets=splits(), **QUIET)
    model = result.model()
    noise = fourier_noise("layer", amplitude=50.0, seed=0)
    clean, noisy, again = (evaluate(model, waves(), noise=each) for each in (None, noise, None))
    assert clean == again != noisy
    assert evaluate(model, waves(), noise=noise, batch_size=5) == pytest.approx(noisy, rel=1e-5)


@pytest.mark.parametrize("device", ["cup", "cuda"])
def test_evaluation_on_a_device_that_is_not_there(device):
    if device == "cuda" and torch.cuda.is_available():
        pytest.skip("there is a GPU")
    model = SequenceClassifier(1, 2, d_model=4, n_layers=1)
    with pytest.raises((ArgumentError, UnknownNameError), match="device"):
        evaluate(model, waves(), device=device)
    assert evaluate(model, waves(), device="auto") == evaluate(model, waves())


def test_bf16_and_compile_options_run(tmp_path):
    assert run(config(epochs=1, precision="bf16"), tmp_path / "bf16", datasets=splits(), **QUIET).finished
    assert torch.get_float32_matmul_precision() == "highest"


# --- what goes wrong


def test_a_loss_that_is_not_finite_stops_with_step_and_layer(tmp_path):
    data = splits()
    values = data["train"].rows.values.clone()
    values[11] = 3e38  # the square of it is not
    data["train"] = SequenceDataset(data["train"].info, "train", FixedRows(values), data["train"].y)
    with pytest.raises(
        NotFiniteError, match=r"not finite at step \d+ \(epoch 1, batch \d\). First: the output of"
    ) as e:
        run(config(), tmp_path / "run", datasets=data, **QUIET)
    (path,) = (tmp_path / "run/checkpoints").glob("not-finite-step-*.safetensors")
    assert str(path) in str(e.value)
    saved = read_checkpoint(path)
    assert 11 in saved.state["not_finite"]["items"]
    assert all(torch.isfinite(t).all() for t in saved.part("model").values())
    assert not (tmp_path / "run/record.json").exists()


def test_a_full_disk_does_not_hide_a_loss_that_is_not_finite(tmp_path, monkeypatch):
    def full(path: Path, content: bytes) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(NotFiniteError, match=r"at step .* could not be kept, No space left on device"):
        run(config(optimizer=OptimizerConfig(lr=1e30)), tmp_path / "run", datasets=splits(), **QUIET)
    assert not list((tmp_path / "run/checkpoints").iterdir())


def test_a_folder_that_cannot_be_written_to_is_refused_by_name(tmp_path):
    (tmp_path / "run/.lock").mkdir(parents=True)  # as root may write anywhere else
    with pytest.raises(RecordError, match=r"cannot create the lock .*run.*choose a folder that can be written"):
        run(config(), tmp_path / "run", datasets=splits(), **QUIET)
    (tmp_path / "file").touch()
    with pytest.raises(RecordError, match=r"cannot make .*file: File exists"):
        run(config(), tmp_path / "file", datasets=splits(), **QUIET)


def test_a_full_disk_stops_the_run_which_then_goes_on(undisturbed, tmp_path, monkeypatch):
    import errno
    import os

    right, synced = undisturbed(config(), splits()), []

    def fsync(handle: int) -> None:
        synced.append(handle)
        if len(synced) == 9:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", fsync)
    often = config(checkpoint_minutes=0)
    with pytest.raises(RecordError, match=r"No space left on device; it takes .* MB"):
        run(often, tmp_path / "run", datasets=splits(), **QUIET)
    assert sorted(p.name for p in (tmp_path / "run/checkpoints").iterdir()) == [LAST, PREVIOUS]
    run(often, tmp_path / "run", datasets=splits(), **QUIET)
    assert weights(tmp_path / "run") == weights(right)


@pytest.mark.parametrize(
    ("changes", "options", "error", "text"),
    [
        ({}, {"datasets": None}, UnknownNameError, "unknown task 'toys'"),
        ({}, {"datasets": {"train": waves()}}, ArgumentError, "no split 'val' among train"),
        ({}, {"datasets": {}}, ArgumentError, "no split 'train' among nothing"),
        ({}, {"minutes": 0}, ArgumentError, "minutes = 0: give the run some time"),
        ({}, {"device": "cuda"}, ArgumentError, "finds no GPU here"),
        ({"data": DataConfig(task="toys", batch_size=25)}, {}, ArgumentError, "there are 24 sequences to train on"),
    ],
)
def test_what_cannot_be_run_is_refused(changes, options, error, text, tmp_path):
    if options.get("device") == "cuda" and torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(error, match=text):
        run(config(**changes), tmp_path / "run", **{"datasets": splits(), **QUIET, **options})


def test_a_mistyped_folder_is_not_made(tmp_path):
    with pytest.raises(RecordError, match="create it first"):
        run(config(), tmp_path / "a/b/c", datasets=splits(), **QUIET)


# --- what a run leaves


def test_the_folder(undisturbed):
    folder = undisturbed(config(), splits())
    names = {path.name for path in folder.iterdir()} - {"tensorboard"}  # which not everybody has
    assert names == {
        "best", "checkpoints", "config.json", "environment.json", "final", "initial", "metrics.csv",
        "metrics.jsonl", "record.json", "spectra.safetensors",
    }  # fmt: skip
    assert RunConfig.from_dict(json.loads((folder / "config.json").read_text())) == config()
    (only,) = json.loads((folder / "environment.json").read_text())["slices"]
    assert (only["from_step"], only["device"], only["processes"]) == (0, "cpu", 1)
    with (folder / "metrics.csv").open() as file:
        table = list(csv.DictReader(file))
    for row, line in zip(course(folder), table, strict=True):
        assert float(line["val_loss"]) == row["val_loss"]
        assert line["test_loss"] == ""
    record = load_record(folder / "record.json")
    assert record.data["parameters"] == sum(p.numel() for p in load_run(folder).model().parameters())
    assert record.data["device_minutes"] >= 0
    assert record.provenance["seed"] == 0
    spectra = load_file(folder / "spectra.safetensors")
    assert spectra["before.0.eigenvalues"].shape == spectra["after.0.eigenvalues"].shape == (4, 4, 2)
    assert not torch.equal(spectra["before.0.dt"], spectra["after.0.dt"])
    assert (spectra["after.0.eigenvalues"][..., 0] < 0).all()


def test_slices_add_up(tmp_path, monkeypatch):
    stop_after(monkeypatch, 4)
    first = run(config(), tmp_path / "run", datasets=splits(), minutes=1, **QUIET)
    assert load_run(tmp_path / "run") == first
    assert not load_record(tmp_path / "run/record.json").data["finished"]
    monkeypatch.undo()
    second = run(config(), tmp_path / "run", datasets=splits(), **QUIET)
    assert second.seconds > first.seconds
    steps = [some["from_step"] for some in json.loads((tmp_path / "run/environment.json").read_text())["slices"]]
    assert steps == [0, 4]


def test_runs_are_listed(undisturbed, tmp_path, monkeypatch):
    for seed in (0, 3):
        monkeypatch.chdir(tmp_path)
        run(config(epochs=1, name="toy", seed=seed), datasets=splits(), **QUIET)
    (tmp_path / "runs/else").mkdir()
    found = list_runs(tmp_path / "runs")
    assert [result.folder.name for result in found] == ["toy", "toy-seed3"]
    assert list_runs(tmp_path / "nowhere") == []
    assert all(math.isfinite(result.test_metrics["loss"]) for result in found)
    with pytest.raises(RecordError, match="is no folder of a run"):
        load_run(tmp_path)


def test_damaged_folders_are_refused_by_name(undisturbed, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run(config(epochs=1, name="toy"), datasets=splits(), **QUIET)
    folder = tmp_path / "runs/toy"
    for name, content in (
        ("record.json", "{"),
        ("record.json", '{"data": {"finished": true}}'),
        ("config.json", "[]"),
        ("config.json", '{"data": {"task": "toys"}, "epohcs": 3}'),
        ("final/config.json", '{"class": "Bomb"}'),
        ("final/config.json", "\x80\x04"),
    ):
        path = folder / name
        before = path.read_bytes()
        path.write_text(content)
        with pytest.raises(RecordError, match=name):
            load_run(folder).model()
        path.write_bytes(before)
    (folder / "record.json").unlink()
    for content in ("{}", "[", '{"slices": 3}'):
        (folder / "environment.json").write_text(content)
        with pytest.raises(RecordError, match=r"environment\.json is damaged"):
            run(config(epochs=1, name="toy"), datasets=splits(), **QUIET)
    (folder / "metrics.jsonl").write_text("[" * 100_000)
    assert load_run(folder).rows() == []
    assert load_run(folder).model()


def test_a_task_of_the_library(tmp_path):
    options = {"count": 16, "steps": 30, "grid": (2, 2)}
    small = config(data=DataConfig(task="sinusoids", options=options, batch_size=4), epochs=1)
    (tmp_path / "data").mkdir()
    result = run(small, tmp_path / "run", data=tmp_path / "data", **QUIET)
    assert evaluate(result, "unseen", data=tmp_path / "data").keys() == {"loss", "mse_s", "mse_A"}
    assert "accuracy" not in result.test_metrics


def test_lines_tell_what_happens(tmp_path, capsys):
    run(config(epochs=2), tmp_path / "run", datasets=splits(), device="cpu")
    lines = capsys.readouterr().err.splitlines()
    assert "begins: " in lines[0]
    assert lines[1].startswith("epoch 1/2  train loss ")
    assert any(line.startswith("checkpoint at step 6: ") for line in lines)
    assert "is finished  test loss" in lines[-1]


def test_of_equal_epochs_the_surer_one_is_the_best():
    """And a loss that is no number is never surer."""
    so_far, chosen = Course(), EvaluationConfig(patience=2)
    seen = [(0.5, 0.9, True), (0.75, 0.8, True), (0.75, 0.6, True), (0.75, 0.7, False), (0.5, 0.1, False)]
    for accuracy, loss, best in seen:
        so_far.epoch += 1
        assert so_far.evaluated(accuracy, {"val": {"loss": loss, "accuracy": accuracy}}, chosen) is best
    assert (so_far.best_epoch, so_far.best["val"]["loss"]) == (3, 0.6)
    assert "no better result in 2 evaluations" in so_far.stopped
    assert not so_far.evaluated(0.75, {"val": {"loss": math.nan, "accuracy": 0.75}}, chosen)
