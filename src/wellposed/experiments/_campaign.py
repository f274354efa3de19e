"""Experiments on trained models: runs that are made where they are missing, in slices of time, and measured once."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from wellposed._files import make_folder
from wellposed.errors import ArgumentError, RecordError
from wellposed.experiments._measured import Measured, TimeIsUp
from wellposed.experiments._training import shortened, train
from wellposed.presets import tiny
from wellposed.presets._fingerprint import fingerprint
from wellposed.train import RunConfig, RunResult, load_run
from wellposed.train._checkpoint import LAST, read_checkpoint
from wellposed.train._config import Precision
from wellposed.train._folder import CHECKPOINTS, CONFIG, check_resumable, epoch_folder, only_one, start_name
from wellposed.train._sweep_result import reason

_RESERVE_MINUTES = 0.3
"""Of a slice, to measure kept epochs of runs that are to be continued."""
_FOR_GOING_ON = ("checkpoints", "best", "epochs")
"""Nine tenths of a folder; the models before and after training stay, and all that was logged and measured."""


@dataclass(frozen=True)
class Job:
    """A run that an experiment needs: a preset, perhaps with something changed, and a seed."""

    name: str
    """Of its folder."""
    config: RunConfig


@dataclass(frozen=True)
class Campaign:
    """Where the runs of an experiment lie, and how long it may work on them now."""

    runs: Path
    """One folder a run; another experiment may share it, and then shares runs of the same name."""
    data: Path | None = None
    deadline: float = float("inf")
    """Of ``time.monotonic()``."""
    reserve: float = 0.0
    """Minutes before it at which training stops."""
    device: str = "auto"
    seeds: tuple[int, ...] = (0, 1, 2)
    epochs: int | None = None
    """Where runs are to be shorter than their presets have them; their names say so."""
    precision: Precision | None = None
    """Where they are to multiply otherwise than their presets; their names say so."""
    start: str | None = None
    """The run or model whose weights they begin with, where these are not drawn; their names say so."""
    only: tuple[str, ...] = ()
    """Names of presets: no others are trained or measured now; what is known of them is told all the same."""
    before: Mapping[str, Any] = field(default_factory=dict)
    """Data of the record that an earlier slice has left, perhaps on another machine."""
    at_once: int = 1
    """Runs that are trained side by side, each in a process of its own: a small model does not fill a card."""
    tiny: bool = False
    """Whether every config is made small, to try an experiment in seconds."""
    slim: bool = False
    """Whether runs give up what is not needed any more: measured ones their checkpoints, others all but the last."""
    say: Callable[[str], None] = field(default=lambda line: None)

    @property
    def minutes_left(self) -> float:
        """Of this slice."""
        return (self.deadline - time.monotonic()) / 60

    def job(self, config: RunConfig, seed: int, *, keep: Sequence[int] = (), name: str = "") -> Job:
        """The run of a preset with a seed, weights of some epochs kept."""
        name = name or config.name
        if self.epochs is not None and self.epochs < config.epochs:
            name, config = f"{name}-{self.epochs}epochs", shortened(config, self.epochs)
        if self.precision is not None and self.precision != config.precision:
            name, config = f"{name}-{self.precision}", config.replace(precision=self.precision)
        if self.start is not None:
            from_ = start_name(self.start).replace("/", "-")
            name, config = f"{name}-from-{from_}", config.replace(start=self.start)
        name, config = f"{name}-seed{seed}", (tiny(config) if self.tiny else config).replace(seed=seed)
        kept = tuple(epoch for epoch in keep if epoch < config.epochs)
        return Job(name, config.replace(evaluation=config.evaluation.replace(keep=(*kept, config.epochs))))

    def concerns(self, config: RunConfig) -> bool:
        """Whether a run found in a folder may be told of: tiny models and others know nothing of each other."""
        return config.name.startswith("tiny-") == self.tiny

    def work(
        self,
        groups: Iterable[Sequence[Job]],
        measure: Callable[[RunResult, Measured], object],
        measure_epoch: Callable[[RunResult, Measured, int], object] | None = None,
    ) -> None:
        """Train and measure one group after the other until all is done, or the time is up.

        What ``measure_epoch`` finds out about a kept epoch can be known before the run is finished: where runs are to
        travel light, weights are measured at the end of a slice, and given up.
        """
        make_folder(self.runs)
        early = measure_epoch if self.slim else None
        learns_until = replace(self, reserve=min(_RESERVE_MINUTES, 0.1 * self.minutes_left)) if early else self
        groups = list(groups)
        # Also those that are not wanted now, for they are told of: perhaps a tiny model, finished long ago.
        unreadable = {job.name for jobs in groups for job in jobs if not self._is_readable(job)}
        if self.only and not any(self.is_wanted(job) for jobs in groups for job in jobs):
            names = dict.fromkeys(job.config.name for jobs in groups for job in jobs)
            raise ArgumentError(f"only = {', '.join(self.only)} is none of the presets here: {', '.join(names)}")
        every = [[job for job in jobs if self.is_wanted(job) and job.name not in unreadable] for jobs in groups]
        try:
            for jobs in self._batches(every):
                train(learns_until, jobs)
                for job in jobs:
                    try:
                        self._measure(job, measure)
                        if early:
                            self._measure_early(job, early)
                    except RecordError as error:  # the others need not wait for it; the record will miss it
                        self.say(f"{job.name} cannot be measured: {error}")
        except TimeIsUp:
            return
        finally:
            if self.slim:
                for job in (job for jobs in every for job in jobs):
                    self._thin_out(job)

    def _is_readable(self, job: Job) -> bool:
        """Whether its folder holds nothing, or a run that can be told of; one of another config is refused."""
        folder = self.runs / job.name
        try:
            if folder.exists() and not folder.is_dir():
                raise RecordError(f"{folder} is a file")
            if (folder / CONFIG).exists():
                check_resumable(folder, job.config, "Remove it, or name another folder for the runs")
        except RecordError as error:
            self.say(f"{job.name} is left out: {error}")
            return False
        return True

    def is_wanted(self, job: Job) -> bool:
        """Whether it is among ``only``."""
        return not self.only or job.config.name.removeprefix("tiny-") in self.only

    def _batches(self, groups: Iterable[Sequence[Job]]) -> Iterator[list[Job]]:
        """Groups, put together until there are as many runs to train as are trained at once."""
        batch: list[Job] = []
        for jobs in groups:
            batch += jobs
            left = sum(map(self.is_left, batch))
            if not left or left >= self.at_once:
                yield batch
                batch = []
        if batch:
            yield batch

    def _measure(self, job: Job, measure: Callable[[RunResult, Measured], object]) -> None:
        done = self.result(job)
        known = self.recorded(job)
        if done is None or not done.finished:
            return
        if known is None or not self._is_complete(known):
            measure(done, self.measured(job))
        if self.slim:
            for name in _FOR_GOING_ON:
                shutil.rmtree(done.folder / name, ignore_errors=True)

    def _measure_early(self, job: Job, measure_epoch: Callable[[RunResult, Measured, int], object]) -> None:
        done = self.result(job)
        if done is None or done.finished:
            return
        measured = self.measured(job)
        for epoch in done.config.evaluation.keep:
            folder = epoch_folder(done.folder, epoch)
            if epoch <= done.epoch and (folder / "config.json").exists():
                measure_epoch(done, measured, epoch)
                shutil.rmtree(folder)

    def _thin_out(self, job: Job) -> None:
        """A finished run needs no checkpoint; of one to be continued the last holds the best weights too.

        Not of one at which another process is at work, nor where the last cannot be read.
        """
        folder = self.runs / job.name
        checkpoints = folder / CHECKPOINTS
        if not checkpoints.exists():
            return
        finished = self.finished(job)
        best = folder / "best"
        aside = [p for p in checkpoints.iterdir() if (finished or p.name != LAST) and "not-finite" not in p.name]
        if not aside and not best.exists():
            return
        with suppress(RecordError), only_one(folder):
            if not finished:
                read_checkpoint(checkpoints / LAST)
            shutil.rmtree(best, ignore_errors=True)
            for path in aside:
                path.unlink(missing_ok=True)

    def finished(self, job: Job) -> bool:
        """Whether it is trained to the end."""
        done = self.result(job)
        return done is not None and done.finished

    def is_left(self, job: Job) -> bool:
        """Whether it is to be trained: not where the record has all of it, nor again where it was not finite."""
        known = self.recorded(job)
        complete = known is not None and self._is_complete(known)
        return not complete and not self.finished(job) and reason(self.runs / job.name)[1]

    def _is_complete(self, line: dict[str, Any]) -> bool:
        return line["finished"] and line["name"] not in self.before["missing"]

    def recorded(self, job: Job) -> dict[str, Any] | None:
        """The line of the earlier record on a run that is complete there, or has come further than here."""
        lines = (run for run in self.before.get("runs", ()) if run["name"] == job.name)
        line = next((run for run in lines if _is_of(job, run)), None)
        if line is None or self._is_complete(line):
            return line  # what was measured of it may be nowhere else
        here = self.result(job)
        further = here is None or (line["finished"], line["epochs"]) > (here.finished, here.epoch)
        return line if further else None

    def check_covers(self, jobs: Iterable[Job]) -> None:
        """Refuse to leave out runs that the earlier record tells of: the new one takes its place."""
        names = {job.name for job in jobs}
        begun = (run["name"] for run in self.before.get("runs", ()) if run["epochs"])
        if others := [name for name in begun if name not in names]:
            named = ", ".join(others[:4]) + (f" and {len(others) - 4} more" if len(others) > 4 else "")
            raise ArgumentError(
                f"the record from before tells of {named}, which these seeds, epochs and precision leave out: "
                "ask for them too, as what is complete is not trained again, or name another folder for the records"
            )

    def entry(self, job: Job, part: str, **about: Any) -> dict[str, Any] | None:
        """What the earlier record says in one of its lists on a run that has come further there."""
        if self.recorded(job) is None:
            return None
        return next((e for e in self.before[part] if all(e[name] == value for name, value in about.items())), None)

    def result(self, job: Job) -> RunResult | None:
        """The run as it stands; nothing where it has not begun."""
        try:
            return load_run(self.runs / job.name)
        except RecordError:
            return None

    def measured(self, job: Job) -> Measured:
        """What is known of a run besides its own record."""
        return Measured(self.runs / job.name / "measured.json", self)


def _is_of(job: Job, line: dict[str, Any]) -> bool:
    """Whether a line of a record is on a run of the same config; the oldest lines tell of its epochs alone."""
    return line["of_epochs"] == job.config.epochs and line.get("config") in (None, fingerprint(job.config))
