"""The processes of a sweep, as the one sees them that started them."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from typing import Any

Message = dict[str, Any]

_OF_OTHERS = (
    "RANK",
    "LOCAL_RANK",
    "GROUP_RANK",
    "NODE_RANK",
    "WORLD_SIZE",
    "LOCAL_WORLD_SIZE",
    "MASTER_ADDR",
    "MASTER_PORT",
)
"""Variables by which a process would take itself for one of several that train one model."""


class Worker:
    """A process that does one run at a time. What it says comes to ``inbox``, and ``None`` when it is gone."""

    def __init__(self, first: Message, inbox: queue.SimpleQueue[tuple[Worker, Message | None]], threads: int) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115, it lives as long as the process
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "wellposed.train._worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=_environment(threads),
            start_new_session=True,  # Ctrl-C is for the one that started it, which tells it to stop
        )
        self._inbox, self.ready = inbox, False
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.send(first)

    @property
    def pid(self) -> int:
        """Of the process."""
        return self._process.pid

    def send(self, message: Message) -> None:
        """To a process that is no longer there nothing is sent: that it is gone is told by its silence."""
        self._write(json.dumps(message))

    def stop(self) -> None:
        """End the run at its next step, with a checkpoint, and then the process."""
        self._write("stop")

    def _write(self, line: str) -> None:
        assert self._process.stdin is not None
        with suppress(OSError):
            self._process.stdin.write(f"{line}\n".encode())
            self._process.stdin.flush()

    def close(self, *, kill: bool = False) -> None:
        """No more work: wait until the process has ended, or end it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        if kill:
            self._process.kill()
        with suppress(OSError):  # what could not be sent is no longer wanted
            self._process.stdin.close()
        self._process.wait()
        self._reader.join()
        self._process.stdout.close()
        self._errors.close()

    def why(self) -> str:
        """Of a process that is gone: by which signal or with which code, and its last words."""
        code = self._process.wait()
        by = signal.Signals(-code).name if code < 0 else f"code {code}"
        return f"{by}{self._last_words()}"

    def _last_words(self, lines: int = 3) -> str:
        self._errors.seek(0)
        said = self._errors.read().decode(errors="replace").strip().splitlines()
        return f": {' / '.join(line.strip() for line in said[-lines:])}" if said else ""

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            try:
                self._inbox.put((self, json.loads(line)))
            except ValueError:  # cut off when it was killed
                continue
        self._inbox.put((self, None))


def _environment(threads: int) -> dict[str, str]:
    """That of this process, with a share of the cores, and modules found where they are found here."""
    own = {name: value for name, value in os.environ.items() if name not in _OF_OTHERS}
    limit = own.get("OMP_NUM_THREADS", "")
    threads = min(threads, int(limit)) if limit.isdigit() and int(limit) else threads
    path = os.pathsep.join(place or os.getcwd() for place in sys.path)
    return own | {"OMP_NUM_THREADS": str(threads), "PYTHONPATH": path, "PYTHONUNBUFFERED": "1"}
