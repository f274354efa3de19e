"""Bars, lines, logs, and what is said when memory is full."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import pytest
import torch

from training_toys import config, splits
from wellposed.errors import RecordError
from wellposed.train import run
from wellposed.train._logs import Metrics, read_rows
from wellposed.train._memory import largest_batch
from wellposed.train._progress import Bar, Lines, Silence, describe, make_progress
from wellposed.train._record import command


def test_a_bar_on_a_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "150")
    monkeypatch.setattr("wellposed.train._loop._LOOK_SECONDS", 0.0)
    result = run(config(epochs=2), tmp_path / "run", datasets=splits(), device="cpu")
    assert result.finished
    said = capsys.readouterr().err
    assert "epoch 2/2" in said
    assert "val loss" in said


def test_which_kind_of_progress(monkeypatch: pytest.MonkeyPatch):
    assert type(make_progress(False)) is Silence
    assert type(make_progress(None)) is Lines
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    assert type(make_progress(None)) is Bar
    assert type(make_progress(False)) is Silence
    monkeypatch.setattr("wellposed.train._progress.find_spec", lambda name: None)
    assert type(make_progress(None)) is Lines


def test_numbers_in_few_characters():
    assert describe({"loss": 0.123456, "accuracy": 0.98765}) == "loss 0.1235 accuracy 98.77 %"


def test_rows_are_added_and_taken_back(tmp_path: Path):
    metrics = Metrics(tmp_path, ["loss"])
    metrics.begin(0)
    for step in (1, 2, 3):
        metrics.add({"kind": "step", "step": step, "epoch": 1, "train_loss": step / 2, "val_loss": float("nan")})
    assert [row["step"] for row in metrics.rows()] == [1, 2, 3]
    assert "val_loss" not in metrics.rows()[0]
    metrics.begin(2)
    assert [row["step"] for row in read_rows(tmp_path / "metrics.jsonl")] == [1, 2]
    lines = (tmp_path / "metrics.csv").read_text().splitlines()
    assert lines[0].startswith("kind,step,epoch,train_loss,val_loss,test_loss,lr")
    assert [line.split(",")[:4] for line in lines[1:]] == [["step", "1", "1", "0.5"], ["step", "2", "1", "1.0"]]


def test_tensorboard_where_it_is_asked_for(tmp_path: Path):
    try:
        import tensorboard  # noqa: F401  # pyright: ignore[reportMissingImports]
    except ImportError:
        with pytest.raises(RecordError, match="TensorBoard is not installed"):
            run(config(epochs=1), tmp_path / "run", datasets=splits(), device="cpu", progress=False, tensorboard=True)
    else:
        run(config(epochs=1), tmp_path / "run", datasets=splits(), device="cpu", progress=False, tensorboard=True)
        assert list((tmp_path / "run/tensorboard").iterdir())


class Board:
    """In the place of TensorBoard's writer."""

    made: ClassVar[list[Board]] = []

    def __init__(self, folder: str, purge_step: int) -> None:
        self.folder, self.purge_step, self.scalars = folder, purge_step, []
        Board.made.append(self)

    def add_scalar(self, name: str, value: float, step: int) -> None:
        self.scalars.append((name, value, step))

    def close(self) -> None:
        Path(self.folder).mkdir(exist_ok=True)


def test_tensorboard_where_it_is_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    module: Any = ModuleType("torch.utils.tensorboard")
    module.SummaryWriter = Board
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr("wellposed.train._logs.find_spec", lambda name: object())
    options: Any = {"datasets": splits(), "device": "cpu", "progress": False}
    run(config(epochs=1), tmp_path / "run", tensorboard=False, **options)
    assert not Board.made
    run(config(epochs=1), tmp_path / "run", resume=False, **options)
    (board,) = Board.made
    assert (Path(board.folder), board.purge_step) == (tmp_path / "run/tensorboard", 1)
    assert {("val_loss", 3), ("train_accuracy", 3)} <= {(name, step) for name, _, step in board.scalars}
    run(config(epochs=2), tmp_path / "run", resume=False, tensorboard=False, **options)
    assert not (tmp_path / "run/tensorboard").exists()


@pytest.mark.parametrize(
    ("fixed", "each", "limit", "batch_size"),
    [(1000, 10, 20_000, 5000), (0, 7, 1000, 1000), (500, 100, 10_000, 128), (0, 1000, 5000, 64)],
)
def test_the_batch_that_is_said_to_fit_does(fixed: int, each: int, limit: int, batch_size: int):
    def measure(size: int) -> int:
        if fixed + each * size > limit:
            raise torch.cuda.OutOfMemoryError("CUDA out of memory")
        return fixed + each * size

    fits = largest_batch(measure, batch_size, limit)
    assert fits is not None
    assert 0.7 * limit <= measure(fits) <= limit


def test_nothing_fits():
    def measure(size: int) -> int:
        raise torch.cuda.OutOfMemoryError("CUDA out of memory")

    assert largest_batch(measure, 64, 1000) is None


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("/home/me/wellposed/src/wellposed/train/__main__.py", "python -m wellposed.train 'a b'"),
        ("/usr/lib/pytest/__main__.py", "python -m pytest 'a b'"),
        ("/usr/bin/wellposed", "wellposed 'a b'"),
        ("", "python 'a b'"),
    ],
)
def test_the_command_can_be_typed_again(program: str, said: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("sys.argv", [program, "a b"])
    assert command() == said
