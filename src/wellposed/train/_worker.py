"""A process of a sweep: does one run after the other, told which by lines of JSON, and tells how they go in such lines.

Nothing but text goes from one process to the other: what a run leaves is in its folder.
"""

from __future__ import annotations

import gc
import json
import os
import pickle
import queue
import signal
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

from wellposed.data import SequenceDataset
from wellposed.errors import DeviceMemoryError, NotFiniteError, WellposedError
from wellposed.train._config import DataConfig, RunConfig
from wellposed.train._progress import Silence
from wellposed.train._run import run_until
from wellposed.train._splits import data_key, load_splits
from wellposed.train._stop import Stop

_TELL_SECONDS = 0.5
"""Between two words on the same epoch."""


class Voice(Silence):
    """What a run says, in lines to whoever started this process."""

    def __init__(self, handle: int) -> None:
        self._file, self._told = os.fdopen(handle, "w", encoding="utf-8"), 0.0

    def tell(self, event: str, **facts: Any) -> None:
        """One line."""
        with suppress(OSError):  # nobody listens any more: the end of the other pipe says so too, and stops the run
            self._file.write(json.dumps({"event": event, **facts}) + "\n")
            self._file.flush()

    def begin(self, epoch: int, epochs: int, steps: int, done: int) -> None:
        """An epoch starts; not all of short ones are told."""
        if epoch == 1 or self._is_time():
            self.tell("epoch", epoch=epoch, epochs=epochs)

    def step(self, done: int, metrics: Mapping[str, float], rate: float) -> None:
        """So it goes."""
        if self._is_time():
            self.tell("step", metrics=dict(metrics), rate=rate)

    def warn(self, message: Warning | str, *_: Any, **__: Any) -> None:
        """In the place of ``warnings.showwarning``."""
        self.tell("warning", text=str(message))

    def _is_time(self) -> bool:
        if time.monotonic() - self._told < _TELL_SECONDS:
            return False
        self._told = time.monotonic()
        return True


class Data:
    """Data sets, read once each; or those that were sent along."""

    def __init__(self, root: str | None, sent: str | None) -> None:
        self._root, self._read = root, {}
        # Written by the process that started this one, in a file that nobody else may write to.
        self._sent = None if sent is None else pickle.loads(Path(sent).read_bytes())

    def splits(self, config: DataConfig) -> dict[str, SequenceDataset]:
        """All splits of a task."""
        if self._sent is not None:
            return self._sent
        key = data_key(config)
        if key not in self._read:
            self._read[key] = load_splits(config, self._root)
        return self._read[key]


def main() -> None:
    """Work until there is no more, or nobody who would give any."""
    voice, stop = Voice(_own_output()), Stop()
    warnings.showwarning = voice.warn
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, frame: stop.on(number))
    jobs: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(jobs, stop), daemon=True).start()
    first = jobs.get()
    if first is None:
        return
    sys.argv[:] = first["argv"]  # what records say of how they were made
    data = Data(first["data"], first["datasets"])
    voice.tell("ready", pid=os.getpid())
    while (job := jobs.get()) is not None and not stop:
        if not _do(first | job, data, stop, voice):
            break


def _own_output() -> int:
    """Standard output for lines of ours alone; what libraries print goes with the errors."""
    sys.stdout.flush()
    handle = os.dup(1)
    os.dup2(2, 1)
    return handle


def _listen(jobs: queue.SimpleQueue[dict[str, Any] | None], stop: Stop) -> None:
    # Unbuffered: a thread that waits inside a buffer would be in the way of the interpreter's end.
    with open(0, "rb", buffering=0, closefd=False) as lines:
        for line in lines:
            if line == b"stop\n" or not line.endswith(b"\n"):  # or cut off: whoever wrote it is no more
                break
            jobs.put(json.loads(line))
    stop.reason = stop.reason or "the end of the sweep"
    jobs.put(None)


def _do(job: dict[str, Any], data: Data, stop: Stop, voice: Voice) -> bool:
    """One run; whether this process is fit for another."""
    seconds = job["seconds"]
    try:
        config = RunConfig.from_dict(job["config"])
        result = run_until(
            stop,
            config,
            job["folder"],
            datasets=data.splits(config.data),
            minutes=None if seconds is None else max(seconds, 1e-3) / 60,
            machine={"device": job["device"], "devices": 1, "num_nodes": 1, "strategy": "auto"},
            progress=lambda: voice,
            summary=job["summary"],
        )
    except BaseException as error:
        full = isinstance(error, DeviceMemoryError | torch.cuda.OutOfMemoryError)
        known = isinstance(error, WellposedError) and not full
        facts = {"memory": full, "again": not isinstance(error, NotFiniteError)}
        words = str(error) if isinstance(error, WellposedError) else "".join(traceback.format_exception(error)).strip()
        voice.tell("failed", text=words, fit=known, **facts)
        return known  # an error of the device leaves nothing that can be trusted
    voice.tell("done", finished=result.finished, fit=not stop)
    del result
    gc.collect()  # models and recordings refer to one another, and hold memory of the device
    if torch.cuda.is_initialized():
        torch.cuda.empty_cache()
    return True


if __name__ == "__main__":
    main()
