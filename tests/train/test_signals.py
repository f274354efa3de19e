"""Ctrl-C and ``kill``, sent to commands as a user starts them."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from subprocesses import environment
from training_toys import config, course, splits
from wellposed.train import _loop as loop
from wellposed.train import load_run, run
from wellposed.train._stop import stopping_on_signals

pytestmark = pytest.mark.usefixtures("interruptible")


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_ends_a_run_with_a_checkpoint(number: signal.Signals, code: int, tmp_path: Path):
    (tmp_path / "data").mkdir()
    job = ["tiny-sinusoids-extrap-s4d", "--set", "epochs=100000", "--data", "data", "--run", "long"]
    command = [sys.executable, "-m", "wellposed.train", *job]
    with subprocess.Popen(command, cwd=tmp_path, env=environment(), stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        next(line for line in process.stderr if line.startswith("epoch 3/"))
        process.send_signal(number)
        rest = process.stderr.read()
    assert process.returncode == code
    assert f"runs/long stops on {number.name} at step " in rest
    assert "checkpoint at step " in rest
    assert "Traceback" not in rest
    result = load_run(tmp_path / "runs/long")
    assert result.epoch >= 3
    assert not result.finished


def test_a_signal_is_passed_on_after_the_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def passed(deadline: float | None) -> bool:
        signal.raise_signal(signal.SIGINT)  # seen when it is looked for the next time, a step later
        return False

    monkeypatch.setattr(loop, "_passed", passed)
    with pytest.raises(KeyboardInterrupt):
        run(config(), tmp_path / "stopped", datasets=splits(), device="cpu", progress=False)
    monkeypatch.undo()
    assert (tmp_path / "stopped/checkpoints/last.safetensors").exists()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    run(config(), tmp_path / "stopped", datasets=splits(), device="cpu", progress=False)
    run(config(), tmp_path / "right", datasets=splits(), device="cpu", progress=False)
    assert course(tmp_path / "stopped") == course(tmp_path / "right")


def test_a_second_signal_does_what_it_does_elsewhere():
    with stopping_on_signals() as stop:
        signal.raise_signal(signal.SIGINT)
        assert stop.reason == "SIGINT"
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


def test_an_ignored_signal_stays_ignored():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with stopping_on_signals() as stop:
            signal.raise_signal(signal.SIGINT)
        assert not stop
    finally:
        signal.signal(signal.SIGINT, before)


def test_threads_leave_signals_alone(tmp_path: Path):
    done = []

    def work() -> None:
        done.append(run(config(epochs=1), tmp_path / "run", datasets=splits(), device="cpu", progress=False))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert done[0].finished
