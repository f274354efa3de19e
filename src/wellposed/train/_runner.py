"""Hands the runs of a sweep to processes: the longest first, none lost with the process it was in."""

from __future__ import annotations

import queue
import time
from collections import Counter, deque
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from wellposed.errors import WellposedError
from wellposed.train._config import RunConfig
from wellposed.train._folder import FAILED
from wellposed.train._pool import Message, Worker
from wellposed.train._progress import describe
from wellposed.train._result import load_run
from wellposed.train._stop import Stop
from wellposed.train._sweep_progress import Watcher
from wellposed.train._sweep_result import note_failure

_TRIES = 3
"""Processes that may die of a run before it is taken for the cause."""
_LOOK_SECONDS = 0.2
"""Between looks at the clock and at signals while no process says anything."""


class Runner:
    """Does ``runs``, in their order, ``at_once`` at a time, until the ``deadline`` or ``stop``."""

    def __init__(
        self,
        folder: Path,
        runs: Mapping[str, RunConfig],
        *,
        at_once: int,
        threads: int,
        first: Message,
        deadline: float | None,
        stop: Stop,
        watch: Watcher,
    ) -> None:
        self._folder, self._runs, self._waiting = folder, runs, deque(runs)
        self._at_once, self._threads, self._first = at_once, threads, first
        self._deadline, self._stop, self._watch = deadline, stop, watch
        self._inbox: queue.SimpleQueue[tuple[Worker, Message | None]] = queue.SimpleQueue()
        self._workers: list[Worker] = []
        self._idle: list[Worker] = []
        self._working: dict[Worker, str] = {}
        self._news: dict[str, Message] = {}
        self._deaths: Counter[str] = Counter()
        self._finished, self._told_to_stop = 0, False
        self.failed: dict[str, str] = {}

    def run(self) -> None:
        """Until all runs have ended, or may not go on."""
        kill = True
        try:
            while self._working or (self._waiting and not self._is_over()):
                self._fill()
                self._pass_on_stop()
                self._hear()
                counts = f"{self._finished} of {len(self._runs)} finished, {len(self.failed)} failed"
                self._watch.show({name: self._news.get(name, {}) for name in self._working.values()}, counts)
            kill = False
        finally:
            for worker in self._workers:
                worker.stop()  # all of them before any is waited for
            for worker in self._workers:
                worker.close(kill=kill or not worker.ready)

    def _is_over(self) -> bool:
        return bool(self._stop) or (self._deadline is not None and time.monotonic() >= self._deadline)

    # --- giving work

    def _fill(self) -> None:
        while self._idle and self._waiting and not self._is_over():
            self._hand_out(self._waiting.popleft(), self._idle.pop())
        wanted = 0 if self._is_over() else min(self._at_once, len(self._working) + len(self._waiting))
        while len(self._workers) < wanted:
            self._workers.append(Worker(self._first, self._inbox, self._threads))

    def _hand_out(self, name: str, worker: Worker) -> None:
        with suppress(OSError):  # there is none, as a rule
            (self._folder / name / FAILED).unlink()
        left = None if self._deadline is None else self._deadline - time.monotonic()
        job = {"folder": str(self._folder / name), "config": self._runs[name].to_dict(), "seconds": left}
        self._working[worker] = name
        worker.send(job)

    def _pass_on_stop(self) -> None:
        if self._stop and not self._told_to_stop:
            self._told_to_stop = True
            self._watch.say(f"{self._stop.reason}: {len(self._working)} runs stop at their next step")
            for worker in self._workers:
                worker.stop()

    # --- hearing of it

    def _hear(self) -> None:
        try:
            worker, message = self._inbox.get(timeout=_LOOK_SECONDS)
        except queue.Empty:
            return
        if message is None:
            self._gone(worker)
            return
        event = message["event"]
        name = self._working.get(worker, "")
        if event == "ready":
            worker.ready = True
            self._idle.append(worker)
        elif event == "warning":
            self._watch.say(f"{name}: {message['text']}")
        elif event in ("done", "failed"):
            self._ended(worker, name, message)
        else:
            self._news[name] = self._news.get(name, {}) | message

    def _ended(self, worker: Worker, name: str, message: Message) -> None:
        del self._working[worker]
        self._news.pop(name, None)
        if message["fit"]:
            self._idle.append(worker)
        if message["event"] == "failed":
            self._failed(name, message)
        elif message["finished"]:
            self._finished += 1
            self._watch.say(f"{name} is finished{self._outcome(name)}")
        elif self._is_over():
            self._watch.say(f"{name} is to be continued")
        else:
            self._once_more(name, "was told to stop")

    def _outcome(self, name: str) -> str:
        found = load_run(self._folder / name)
        splits = {"val": found.metrics.get("val", {}), "test": found.test_metrics}
        return "".join(f"  {split} {describe(some)}" for split, some in splits.items() if some)

    def _failed(self, name: str, message: Message) -> None:
        if message["memory"] and self._working:
            # Beside others it did not fit: they take turns among fewer, and it is tried again.
            self._at_once = len(self._working)
            self._waiting.appendleft(name)
            self._watch.say(f"{name} found no memory beside the others: {self._at_once} at once from now on")
            return
        self._give_up(name, message["text"], again=message["again"])

    def _give_up(self, name: str, why: str, *, again: bool) -> None:
        self.failed[name] = why
        note_failure(self._folder / name, why, again=again)
        self._watch.say(f"{name} has failed: {why}")

    def _gone(self, worker: Worker) -> None:
        """A process has ended: as it was to, or not."""
        self._workers.remove(worker)
        if worker in self._idle:
            self._idle.remove(worker)
        name, why = self._working.pop(worker, None), worker.why()
        worker.close()
        if not worker.ready and not self._is_over():
            raise WellposedError(f"a process for the sweep could not be started, it ended with {why}")
        if name is not None and not self._is_over():
            self._once_more(name, f"was lost with its process, which ended with {why}")

    def _once_more(self, name: str, what: str) -> None:
        self._news.pop(name, None)
        self._deaths[name] += 1
        if self._deaths[name] >= _TRIES:
            self._give_up(name, f"{what}, {_TRIES} times", again=True)
            return
        self._watch.say(f"{name} {what}; it goes on from its last checkpoint")
        self._waiting.appendleft(name)
