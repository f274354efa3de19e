"""Sweeps, in real processes: as single runs to the bit, whatever happens to the processes."""

from __future__ import annotations

import json
import os
import queue
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from training_toys import MODEL, config, course, splits, waves, weights, words
from wellposed.errors import ArgumentError, RecordError, ShapeError, UnknownNameError, WellposedError
from wellposed.train import (
    DataConfig,
    RunConfig,
    SweepResult,
    _at_once,
    _runner,
    _sweep_progress,
    grid,
    list_runs,
    list_sweeps,
    load_sweep,
    run,
    sweep,
)
from wellposed.train._pool import Worker
from wellposed.train._stop import Stop

QUIET: Any = {"device": "cpu", "progress": False}
RATES = {"optimizer.lr": [0.004, 0.01, 1e38], "seed": [0]}
"""With the last of which numbers are soon not finite."""


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> tuple[SweepResult, str]:
    """A sweep of three runs, one of which fails, and what it said."""
    said: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_sweep_progress.Lines, "say", lambda self, text: said.append(text))
        folder = tmp_path_factory.mktemp("sweeps") / "rates"
        result = sweep(grid(config(), RATES), folder, at_once=2, datasets=splits(), device="cpu")
    return result, "\n".join(said)


# --- what comes out


def test_runs_are_those_made_one_by_one_to_the_bit(swept: tuple[SweepResult, str], tmp_path: Path):
    found = swept[0]
    assert list(found) == ["lr=0.004", "lr=0.01", "lr=1e+38"]
    one, settings = found["lr=0.01"], grid(config(), RATES)["lr=0.01"]
    alone = run(settings, tmp_path / "alone", datasets=splits(), **QUIET)
    assert one.config == settings
    assert one.test_metrics == alone.test_metrics
    assert course(one.folder) == course(alone.folder)
    assert weights(one.folder) == weights(alone.folder)


def test_records_name_the_command_that_was_typed(swept: tuple[SweepResult, str]):
    record = json.loads((swept[0].folder / "lr=0.01/record.json").read_text())
    program = Path(sys.argv[0]).name
    assert record["provenance"]["command"].split()[0] == ("python" if program == "__main__.py" else program)


def test_a_run_that_is_not_finite_is_reported_and_leaves_the_others_alone(swept: tuple[SweepResult, str]):
    found = swept[0]
    assert [result.finished for result in found.values()] == [True, True, False]
    assert "not finite at step" in found.failed["lr=1e+38"]
    assert found.finished  # as far as it can be: the same would happen again
    assert load_sweep(found.folder).rows() == found.rows()
    assert load_sweep(found.folder).failed == found.failed


def test_a_line_for_every_end_and_a_table_at_the_last(swept: tuple[SweepResult, str]):
    lines = swept[1].splitlines()
    assert sum(line.startswith(("lr=0.004 is finished  val loss", "lr=0.01 is finished")) for line in lines) == 2
    assert sum(line.startswith("lr=1e+38 has failed: the loss or a gradient") for line in lines) == 1
    head, *rows = (line.split() for line in lines[-4:])
    assert head == ["run", "epochs", "best", "val", "test", "time"]
    assert [row[:2] for row in rows] == [["lr=0.004", "3/3"], ["lr=0.01", "3/3"], ["lr=1e+38", "0/3"]]


def test_what_is_done_is_not_done_again(swept: tuple[SweepResult, str], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(_runner, "Worker", None)  # no process is started
    again = sweep(grid(config(), RATES), swept[0].folder, datasets=splits(), **QUIET)
    assert again.rows() == swept[0].rows()
    assert again.failed == swept[0].failed


def test_a_sweep_can_grow(swept: tuple[SweepResult, str], tmp_path: Path):
    shutil.copytree(swept[0].folder, tmp_path / "copy")
    more = grid(config(), {"optimizer.lr": [0.004, 0.02]})
    grown = sweep(more, tmp_path / "copy", minutes=1e-9, datasets=splits(), **QUIET)
    assert (list(grown), grown.left) == (["lr=0.004"], ("lr=0.02",))
    every = load_sweep(tmp_path / "copy")
    assert (list(every), every.left) == (["lr=0.004", "lr=0.01", "lr=1e+38"], ("lr=0.02",))


def test_sweeps_are_listed_and_are_no_runs(swept: tuple[SweepResult, str], tmp_path: Path):
    root = swept[0].folder.parent
    assert [found.folder.name for found in list_sweeps(root)] == ["rates"]
    assert list_runs(root) == []
    assert [found.folder.name for found in list_runs(swept[0].folder)] == ["lr=0.004", "lr=0.01", "lr=1e+38"]
    assert list_sweeps(tmp_path / "nowhere") == []
    with pytest.raises(RecordError, match="is no folder of a sweep"):
        load_sweep(tmp_path)


# --- what happens on the way


class Watched(Worker):
    """A process whose number is known to the test."""

    made: list[Watched] = []  # noqa: RUF012, emptied by the fixture

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.made.append(self)


@pytest.fixture
def workers(monkeypatch: pytest.MonkeyPatch) -> list[Watched]:
    monkeypatch.setattr(_runner, "Worker", Watched)
    Watched.made.clear()
    return Watched.made


def meanwhile(job: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=job)
    thread.start()
    return thread


def until(condition: Callable[[], bool], seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)
    assert condition()


LONG = config(epochs=40, checkpoint_minutes=0)
"""Long enough that things happen on the way; a checkpoint a step."""


def written(folder: Path) -> int:
    """When the last checkpoint of a run was, in nanoseconds."""
    path = folder / "checkpoints/last.safetensors"
    return path.stat().st_mtime_ns if path.exists() else 0


def check_long_run(folder: Path, slices: int, alone: Path) -> None:
    found = json.loads((folder / "environment.json").read_text())["slices"]
    steps = [some["from_step"] for some in found]
    assert len(set(steps)) == slices
    assert steps == sorted(steps)
    run(config(epochs=40), alone, datasets=splits(), **QUIET)
    assert weights(folder) == weights(alone)
    assert course(folder) == course(alone)


@pytest.mark.slow
def test_a_killed_process_is_noticed_and_its_run_goes_on(workers: list[Watched], tmp_path: Path):
    def kill() -> None:
        until(lambda: written(tmp_path / "sweep/a") > 0)
        os.kill(workers[0].pid, signal.SIGKILL)

    thread = meanwhile(kill)
    found = sweep({"a": LONG}, tmp_path / "sweep", datasets=splits(), **QUIET)
    thread.join()
    assert (found.finished, found["a"].finished, len(workers)) == (True, True, 2)
    check_long_run(tmp_path / "sweep/a", 2, tmp_path / "alone")


@pytest.mark.slow
@pytest.mark.usefixtures("interruptible")
def test_a_stopped_sweep_is_moved_and_goes_on(tmp_path: Path):
    def interrupt() -> None:
        until(lambda: written(tmp_path / "here/a") > 0)
        os.kill(os.getpid(), signal.SIGINT)

    thread = meanwhile(interrupt)
    with pytest.raises(KeyboardInterrupt):
        sweep({"a": LONG}, tmp_path / "here", datasets=splits(), **QUIET)
    thread.join()
    stopped = load_sweep(tmp_path / "here")
    assert (stopped.failed, stopped.left) == ({}, ("a",))
    assert not stopped["a"].finished
    shutil.move(tmp_path / "here", tmp_path / "there")
    assert sweep({"a": LONG}, tmp_path / "there", datasets=splits(), **QUIET)["a"].finished
    check_long_run(tmp_path / "there/a", 2, tmp_path / "alone")


@pytest.mark.slow
def test_a_process_stops_when_its_time_is_up_and_when_nobody_is_left(tmp_path: Path):
    inbox: queue.SimpleQueue[Any] = queue.SimpleQueue()
    (tmp_path / "data").mkdir()
    first = {"argv": ["sweep"], "data": str(tmp_path / "data"), "datasets": None, "device": "cpu", "summary": False}
    toy = DataConfig(task="toy", options={"train": 16}, batch_size=8)
    job = {"config": config(data=toy, epochs=100_000).to_dict(), "folder": str(tmp_path / "run"), "seconds": 0.5}
    worker = Worker(first, inbox, 1)

    def events(last: str) -> list[dict[str, Any]]:
        found = [inbox.get(timeout=120)[1]]
        while found[-1]["event"] != last:
            found.append(inbox.get(timeout=120)[1])
        return found

    events("ready")
    worker.send(job)
    heard = events("done")
    assert heard[-1] == {"event": "done", "finished": False, "fit": True}
    assert heard[0] == {"event": "epoch", "epoch": 1, "epochs": 100_000}
    worker.send(job | {"seconds": None})
    events("epoch")
    last = tmp_path / "run/checkpoints/last.safetensors"
    before = last.stat().st_mtime_ns
    worker.close()  # as if the one that started it were gone
    assert worker._process.returncode == 0
    assert last.stat().st_mtime_ns > before


def test_no_time_means_that_nothing_is_begun(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(_runner, "Worker", None)
    found = sweep({"a": config(), "b": config(seed=1)}, tmp_path / "sweep", minutes=1e-9, datasets=splits(), **QUIET)
    assert (len(found), found.left, found.finished) == (0, ("a", "b"), False)
    assert found.table().splitlines()[1].split() == ["a", "-", "-", "-", "-", "-", "waiting"]


# --- the order of things, with processes that only pretend


class Pretended(Worker):
    """A process of which the test says what it does with a run."""

    answers: dict[str, list[dict[str, Any] | None]]
    log: list[str]
    stops: list[str]
    most: int

    def __init__(self, first: dict[str, Any], inbox: queue.SimpleQueue[Any], threads: int) -> None:
        self._inbox, self.ready, self._stopped = inbox, False, False
        type(self).most = max(self.most, len(ALIVE) + 1)
        ALIVE.append(self)
        inbox.put((self, {"event": "ready"}))

    def send(self, message: dict[str, Any]) -> None:
        name = Path(message["folder"]).name
        self.log.append(name)
        answers = self.answers.get(name, [])
        answer = answers.pop(0) if answers else {"event": "failed", "text": "as told", "fit": True}
        if answer == {}:  # works until it is told to stop, which it is by and by
            signal.raise_signal(signal.SIGTERM)
            return
        if answer is not None:
            answer = {"memory": False, "again": True} | answer
            self._inbox.put((self, answer))
        if answer is None or not answer["fit"]:
            self._inbox.put((self, None))

    def stop(self) -> None:
        if not self._stopped:
            self._stopped = True
            self.stops.append("stop")
            self._inbox.put((self, None))

    def why(self) -> str:
        return "code 7"

    def close(self, *, kill: bool = False) -> None:
        if self in ALIVE:
            ALIVE.remove(self)


ALIVE: list[Pretended] = []


def pretend(
    monkeypatch: pytest.MonkeyPatch, folder: Path, runs: dict[str, RunConfig], answers: dict[str, Any], **options: Any
) -> tuple[list[str], dict[str, str]]:
    log: list[str] = []
    for name, value in (("answers", answers), ("log", log), ("stops", []), ("most", 0)):
        monkeypatch.setattr(Pretended, name, value, raising=False)
    monkeypatch.setattr(_runner, "Worker", Pretended)
    found = sweep(runs, folder, datasets=splits(), **QUIET, **options)
    assert ALIVE == []
    return log, found.failed


def test_the_longest_run_is_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    runs = grid(config(), {"epochs": [1, 5, 3], "model.d_model": [4, 8]})
    log, failed = pretend(monkeypatch, tmp_path / "sweep", runs, {}, at_once=1)
    sizes = [(each.split(",")[0], each.split(",")[1]) for each in log]
    assert [f"{a[7:]} x {b[8:]}" for a, b in sizes] == ["5 x 8", "3 x 8", "5 x 4", "3 x 4", "1 x 8", "1 x 4"]
    assert set(failed) == set(runs)


def test_a_run_without_memory_is_tried_again_beside_fewer(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    full = {"event": "failed", "text": "out of memory", "memory": True, "fit": False}
    runs = {name: config(seed=seed) for seed, name in enumerate("abc")}
    log, failed = pretend(monkeypatch, tmp_path / "sweep", runs, {"b": [full]}, at_once=3)
    assert sorted(log) == ["a", "b", "b", "c"]
    assert failed["b"] == "as told"
    log, failed = pretend(monkeypatch, tmp_path / "alone", {"b": config()}, {"b": [full]}, at_once=3)
    assert (log, failed) == (["b"], {"b": "out of memory"})


def test_never_more_processes_than_asked_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    runs = {name: config(seed=seed) for seed, name in enumerate("abcdefg")}
    log, _ = pretend(monkeypatch, tmp_path / "sweep", runs, {"c": [None]}, at_once=3)
    assert Pretended.most == 3
    assert sorted(log) == ["a", "b", "c", "c", "d", "e", "f", "g"]


def test_a_run_that_its_processes_die_of_is_given_up(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    log, failed = pretend(monkeypatch, tmp_path / "sweep", {"a": config()}, {"a": [None, None, None]})
    assert log == ["a", "a", "a"]
    assert failed == {"a": "was lost with its process, which ended with code 7, 3 times"}


def test_a_signal_stops_all_and_is_passed_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    runs = {name: config(seed=seed) for seed, name in enumerate("abc")}
    with pytest.raises(SystemExit) as stopped:
        pretend(monkeypatch, tmp_path / "sweep", runs, {"a": [{}]}, at_once=1)
    assert stopped.value.code == 143
    assert (Pretended.log, Pretended.stops) == (["a"], ["stop"])
    assert load_sweep(tmp_path / "sweep").left == ("a", "b", "c")
    assert ALIVE == []


def test_a_process_that_cannot_start_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr("wellposed.train._pool.sys.executable", shutil.which("false") or "/bin/false")
    with pytest.raises(WellposedError, match="a process for the sweep could not be started, it ended with code 1"):
        sweep({"a": config()}, tmp_path / "sweep", datasets=splits(), **QUIET)


# --- names


def test_names_say_what_varies():
    base = config(optimizer=config().optimizer)
    over = {"optimizer.lr": np.array([1e-4, 0.3]), "model.layer": ["s4d", "s4"], "epochs": ["7"], "ema": [None, 0.5]}
    found = grid(base, over)
    assert list(found)[:3] == [
        "lr=0.0001,layer=s4d,ema=none",
        "lr=0.0001,layer=s4d,ema=0.5",
        "lr=0.0001,layer=s4,ema=none",
    ]
    assert {each.epochs for each in found.values()} == {7}
    assert found["lr=0.3,layer=s4,ema=0.5"].model["layer"] == "s4"
    assert list(grid(base, {"epochs": [2]})) == ["toys"]
    assert list(grid(base, {"optimizer.weight_decay": [1e9, 1 / 3]})) == [
        "weight_decay=1e+09",
        "weight_decay=0.3333333333333333",
    ]
    both = grid(base, {"schedule.patience": [1, 2], "evaluation.patience": [3, 4]})
    assert next(iter(both)) == "schedule.patience=1,evaluation.patience=3"


@pytest.mark.parametrize(
    ("over", "error", "text"),
    [
        ({"optimizer.rate": [1]}, UnknownNameError, "unknown field of optimizer 'rate'"),
        ({"seed": "012"}, ArgumentError, r"seed is to go over several values: give a list such as \['012'\]"),
        ({"seed": []}, ArgumentError, "seed has no value to go over"),
        ({"seed": [0, 0]}, ArgumentError, "two configs would be called 'seed=0'"),
        ({"epochs": [1, 0]}, ArgumentError, "epochs must be at least 1, got 0"),
        ({"note": ["a" * 300, "b"]}, ArgumentError, "cannot name a run"),
    ],
)
def test_what_no_grid_is_made_of(over: Any, error: type[Exception], text: str):
    with pytest.raises(error, match=text):
        grid(config(), over)


@pytest.mark.parametrize(
    ("configs", "options", "error", "text"),
    [
        ({}, {}, ArgumentError, "nothing to sweep over"),
        ({"a/b": config()}, {}, ArgumentError, "'a/b' cannot name a run"),
        ({".a": config()}, {}, ArgumentError, "cannot name a run"),
        ([config(), config()], {}, ArgumentError, "two configs would be called 'toys'"),
        ({"a": config()}, {"minutes": 0}, ArgumentError, "minutes = 0: give the sweep some time"),
        ({"a": config()}, {"at_once": 0}, ShapeError, "at_once must be at least 1, got 0"),
        ({"a": config()}, {"datasets": {"val": waves()}}, ArgumentError, "no split 'train' among val"),
        ({"a": config()}, {"datasets": None}, UnknownNameError, "unknown task 'toys'"),
    ],
)
def test_what_cannot_be_swept_is_refused(configs: Any, options: Any, error: type[Exception], text: str, tmp_path: Path):
    with pytest.raises(error, match=text):
        sweep(configs, tmp_path / "sweep", **{"datasets": splits(), **QUIET, **options})


def test_other_configs_and_single_runs_are_not_touched(swept: tuple[SweepResult, str]):
    place = swept[0].folder
    with pytest.raises(ArgumentError, match=r"holds a run of another config: epochs was 3, is 4"):
        sweep({"lr=0.01": config(epochs=4)}, place, datasets=splits(), **QUIET)
    with pytest.raises(ArgumentError, match="holds a single run: choose another folder"):
        sweep({"a": config()}, place / "lr=0.01", datasets=splits(), **QUIET)


def test_lists_are_named_by_what_differs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(_runner, "Worker", None)
    other = config(seed=4, model=MODEL | {"layer_options": {"d_state": 8}})
    found = sweep([config(name="x"), other], tmp_path / "sweep", minutes=1e-9, datasets=splits(), **QUIET)
    assert found.left == ("d_state=4,seed=0", "d_state=8,seed=4")


# --- how many at once


def test_as_many_at_once_as_there_is_room_for(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(_at_once, "cores", lambda: 16)
    small, data = config(), splits()
    need = _at_once.process_bytes(small, data, "cpu")
    for share, at_once in ((0.5, 1), (1.2, 1), (4.0, 3), (1e9, 5)):
        monkeypatch.setattr(_at_once, "free_memory", lambda share=share: share * need)
        assert _at_once.default_at_once([(small, data)] * 5, "cpu") == at_once
    monkeypatch.setattr(_at_once, "cores", lambda: 2)
    assert _at_once.default_at_once([(small, data)] * 5, "cpu") == 2
    # the largest counts: a thousand times the batch
    large = config(data=DataConfig(task="toys", batch_size=2**20))
    monkeypatch.setattr(_at_once, "free_memory", lambda: 5 * need)
    assert _at_once.default_at_once([(small, data), (large, data)], "cpu") == 1


def test_a_card_holds_the_data_once_for_each(monkeypatch: pytest.MonkeyPatch):
    data = splits(words)
    own = _at_once.process_bytes(config(), data, "cuda") - _at_once._PROCESS["cuda"]
    shared = _at_once.process_bytes(config(), data, "cpu") - _at_once._PROCESS["cpu"]
    assert own - shared == sum(split.nbytes for split in data.values())
    monkeypatch.setattr("torch.cuda.mem_get_info", lambda: (2**40, 2**40))
    monkeypatch.setattr(_at_once, "cores", lambda: 64)
    assert _at_once.default_at_once([(config(), data)] * 20, "cuda") == _at_once._MOST_ON_A_GPU


def test_free_memory_is_what_the_machine_has():
    assert 2**20 < _at_once.free_memory() < 2**50 or not Path("/proc/meminfo").exists()


# --- a terminal


def test_a_table_of_the_runs_at_work(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "120")
    watch = _sweep_progress.make_watcher(None)
    facts = {"epoch": 2, "epochs": 9, "metrics": {"loss": 0.5}, "rate": 1234.5}
    watch.say("[a] is finished")
    watch.show({"lr=1": facts, "lr=2": {}}, "1 of 3 finished, 0 failed")
    watch.close()
    said = capsys.readouterr().err
    assert "[a] is finished" in said
    assert isinstance(watch, _sweep_progress.LiveTable)
    monkeypatch.setitem(sys.modules, "rich.live", None)
    assert not isinstance(_sweep_progress.make_watcher(None), _sweep_progress.LiveTable)  # lines do without rich
    assert not Stop()
