"""The lock keeps processes and threads apart, and dies with its holder."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from subprocesses import SOURCE
from wellposed._locks import locked
from wellposed.errors import DataError

HOLD = """
import sys, time
from pathlib import Path
from wellposed._locks import locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


def holder(path: Path) -> subprocess.Popen[str]:
    child = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)], env={"PYTHONPATH": str(SOURCE)}, stdout=subprocess.PIPE, text=True
    )
    assert child.stdout
    assert child.stdout.readline() == "held\n"
    return child


def test_it_is_released_when_its_holder_is_killed(tmp_path):
    path = tmp_path / "file.lock"
    child = holder(path)
    taken = threading.Event()

    def take():
        with locked(path):
            taken.set()

    waiting = threading.Thread(target=take)
    waiting.start()
    try:
        assert not taken.wait(0.3)
    finally:
        child.send_signal(signal.SIGKILL)
        child.communicate()
    waiting.join(10)
    assert taken.is_set()
    assert not path.exists()


def test_a_file_that_was_left_behind_locks_nobody_out(tmp_path):
    path = tmp_path / "file.lock"
    path.write_text("left by a process that was killed")
    with locked(path):
        assert path.exists()
    assert not path.exists()


def test_one_at_a_time_while_the_file_comes_and_goes(tmp_path):
    inside, most = [], []

    def work(_: int) -> None:
        for _ in range(20):
            with locked(tmp_path / "file.lock"):
                inside.append(1)
                most.append(len(inside))
                time.sleep(0.0005)
                inside.pop()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert max(most) == 1
    assert len(most) == 160


def test_it_is_released_after_an_error(tmp_path):
    with pytest.raises(KeyError), locked(tmp_path / "file.lock"):
        raise KeyError
    with locked(tmp_path / "file.lock"):
        pass


def test_where_it_cannot_be_created(tmp_path):
    (tmp_path / "file").touch()
    place = tmp_path / "file" / "lock"
    with pytest.raises(DataError, match="choose a folder that can be written"), locked(place, error=DataError):
        pass
