"""Experiments on trained models: runs that are made where they are missing, in slices of time, and measured once."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from wellposed._files import make_folder, write_whole
from wellposed.errors import NotFiniteError, RecordError, UnknownNameError
from wellposed.presets import fields_of, preset
from wellposed.train import RunConfig, RunResult, load_run, run, sweep
from wellposed.train._sweep_result import note_failure, reason

_LEAST_MINUTES = 0.05
"""What is worth beginning for: three seconds."""
_PLAIN_FLOATS = 6
"""Significant digits of what is measured."""


_FOR_GOING_ON = ("checkpoints", "best", "epochs")
"""Nine tenths of a folder; the models before and after training stay, and all that was logged and measured."""
_LAST = "last.safetensors"
_CARD = "card minutes"
_ASIDE = ("name", "note", "seed", "evaluation.keep")
"""Fields that a run has of itself, whatever its preset."""


class TimeIsUp(Exception):
    """The slice is over: what has been measured is kept, the rest is for the next one."""


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
    device: str = "auto"
    seeds: tuple[int, ...] = (0, 1, 2)
    epochs: int | None = None
    """Where runs are to be shorter than their presets have them; their names say so."""
    only: tuple[str, ...] = ()
    """Names of presets: no others are trained or measured now; what is known of them is told all the same."""
    records: Path | None = None
    """Where records of earlier slices lie."""
    at_once: int = 1
    """Runs that are trained side by side, each in a process of its own: a small model does not fill a card."""
    shrink: Callable[[RunConfig], RunConfig] = field(default=lambda config: config)
    """Applied to every config: ``presets.tiny``, to try an experiment in seconds."""
    slim: bool = False
    """Whether runs give up what is not needed any more: measured ones their checkpoints, others all but the last."""
    say: Callable[[str], None] = field(default=lambda line: None)

    @property
    def minutes_left(self) -> float:
        """Of this slice."""
        return (self.deadline - time.monotonic()) / 60

    def job(self, config: RunConfig, seed: int, *, keep: Sequence[int] = (), name: str = "") -> Job:
        """The run of a preset with a seed, weights of some epochs kept."""
        shorter = self.epochs is not None and self.epochs < config.epochs
        name = f"{name or config.name}{f'-{self.epochs}epochs' if shorter else ''}-seed{seed}"
        config = self.shrink(shortened(config, self.epochs) if shorter else config).replace(seed=seed)
        kept = tuple(epoch for epoch in keep if epoch < config.epochs)
        return Job(name, config.replace(evaluation=config.evaluation.replace(keep=(*kept, config.epochs))))

    def work(self, groups: Iterable[Sequence[Job]], measure: Callable[[RunResult, Measured], object]) -> None:
        """Train and measure one group after the other until all is done, or the time is up."""
        make_folder(self.runs)
        every = [[job for job in jobs if self._is_wanted(job)] for jobs in groups]
        try:
            for jobs in self._batches(every):
                train(self, jobs)
                for job in jobs:
                    self._measure(job, measure)
        except TimeIsUp:
            return
        finally:
            if self.slim:
                for job in (job for jobs in every for job in jobs):
                    self._thin_out(job)

    def _is_wanted(self, job: Job) -> bool:
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
        if done is None or not done.finished:
            return
        measure(done, self.measured(job))
        if self.slim:
            for name in _FOR_GOING_ON:
                shutil.rmtree(done.folder / name, ignore_errors=True)

    def _thin_out(self, job: Job) -> None:
        """Of a run to be continued: its last checkpoint holds the best weights too."""
        folder = self.runs / job.name
        if self.finished(job) or not (folder / "checkpoints" / _LAST).exists():
            return
        shutil.rmtree(folder / "best", ignore_errors=True)
        for path in (folder / "checkpoints").iterdir():
            if path.name != _LAST:
                path.unlink()

    def finished(self, job: Job) -> bool:
        """Whether it is trained to the end."""
        done = self.result(job)
        return done is not None and done.finished

    def is_left(self, job: Job) -> bool:
        """Whether it is to be trained; not again where its numbers were not finite."""
        return not self.finished(job) and reason(self.runs / job.name)[1]

    def result(self, job: Job) -> RunResult | None:
        """The run as it stands; nothing where it has not begun."""
        try:
            return load_run(self.runs / job.name)
        except RecordError:
            return None

    def measured(self, job: Job) -> Measured:
        """What is known of a run besides its own record."""
        return Measured(self.runs / job.name / "measured.json", self)


def shortened(config: RunConfig, epochs: int | None) -> RunConfig:
    """The same in fewer epochs: what the schedule counts in steps or epochs shrinks with them."""
    share = (epochs or config.epochs) / config.epochs
    schedule = config.schedule

    def fewer(steps: int | None) -> int | None:
        return None if steps is None else max(round(share * steps), 1)

    schedule = schedule.replace(
        warmup_epochs=round(share * schedule.warmup_epochs, 6) or 0,
        warmup_steps=fewer(schedule.warmup_steps),
        steps=fewer(schedule.steps),
    )
    return config.replace(epochs=round(share * config.epochs), schedule=schedule)


def train(campaign: Campaign, jobs: Sequence[Job]) -> None:
    """Make the runs of a group that are missing, and note how much of the card's time each has taken.

    All training of the experiments goes through here.
    """
    todo = [job for job in jobs if campaign.is_left(job)]
    if campaign.at_once > 1 and len(todo) > 1:
        _charged(campaign, todo, _train_together)
        return
    for job in todo:
        _charged(campaign, [job], _train_alone)


def _charged(campaign: Campaign, jobs: Sequence[Job], work: Callable[[Campaign, Sequence[Job]], None]) -> None:
    """Do it if there is time, and share the minutes it took out among the runs, by how long each was at work."""
    if campaign.minutes_left < _LEAST_MINUTES:
        return
    began, before = time.monotonic(), [_seconds(campaign, job) for job in jobs]
    work(campaign, jobs)
    minutes = (time.monotonic() - began) / 60
    spent = [_seconds(campaign, job) - first for job, first in zip(jobs, before, strict=True)]
    for job, seconds in zip(jobs, spent, strict=True):
        if seconds > 0:
            measured = campaign.measured(job)
            measured.put(_CARD, (measured.get(_CARD) or 0.0) + minutes * seconds / sum(spent))


def _seconds(campaign: Campaign, job: Job) -> float:
    done = campaign.result(job)
    return 0.0 if done is None else done.seconds


def _train_together(campaign: Campaign, jobs: Sequence[Job]) -> None:
    """In processes, which a sweep hands them to."""
    campaign.say(f"training {campaign.at_once} at once: {', '.join(job.name for job in jobs)}")
    result = sweep(
        {job.name: job.config for job in jobs},
        campaign.runs,
        at_once=campaign.at_once,
        data=campaign.data,
        minutes=_minutes(campaign),
        device=campaign.device,
        progress=False,
    )
    for name, why in result.failed.items():
        campaign.say(f"{name} has failed: {why}")
    for name, done in result.items():
        campaign.say(f"{name}: {done.epoch} of {done.config.epochs} epochs")


def _train_alone(campaign: Campaign, jobs: Sequence[Job]) -> None:
    """One after the other, in this process."""
    for job in jobs:
        campaign.say(f"training {job.name}")
        try:
            run(
                job.config,
                campaign.runs / job.name,
                data=campaign.data,
                minutes=_minutes(campaign),
                device=campaign.device,
                progress=False,
                summary=False,  # the certificates have what it would say
            )
        except NotFiniteError as error:  # the others need not wait for it; the record will miss it
            note_failure(campaign.runs / job.name, str(error), again=False)
            campaign.say(f"{job.name} has failed: {error}")


def _minutes(campaign: Campaign) -> float | None:
    left = campaign.minutes_left
    return None if left == float("inf") else max(left, 1e-6)


class Measured:
    """Numbers by name in a file beside the run, each computed once, whatever happens in between."""

    def __init__(self, path: Path, campaign: Campaign) -> None:
        self._path, self._campaign = path, campaign
        self._values: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}

    def __call__(self, name: str, compute: Callable[[], Any]) -> Any:
        """The value of that name, computed if there is none yet and time is left."""
        if name not in self._values:
            if self._campaign.minutes_left < _LEAST_MINUTES:
                raise TimeIsUp
            self._campaign.say(f"measuring {self._path.parent.name}: {name}")
            self.put(name, compute())
        return self._values[name]

    def put(self, name: str, value: Any) -> None:
        """Keep a value, in the place of another of that name."""
        self._values[name] = rounded(value)
        write_whole(self._path, json.dumps(self._values) + "\n")

    def get(self, name: str) -> Any:
        """The value, or ``None``."""
        return self._values.get(name)


def rounded(value: Any) -> Any:
    """Numbers in lists and mappings to the digits that are kept."""
    if isinstance(value, dict):
        return {name: rounded(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(each) for each in value]
    return float(f"{value:.{_PLAIN_FLOATS}g}") if isinstance(value, float) else value


def described(campaign: Campaign, jobs: Iterable[Job]) -> list[dict[str, Any]]:
    """Where the numbers of each run come from, and how far it has come."""
    return [_described(campaign, job) for job in jobs]


def _described(campaign: Campaign, job: Job) -> dict[str, Any]:
    done = campaign.result(job)
    about: dict[str, Any] = {
        "name": job.name,
        "preset": job.config.name,
        "changed": changed(job.config),
        "note": job.config.note,
        "seed": job.config.seed,
        "epochs": 0 if done is None else done.epoch,
        "of_epochs": job.config.epochs,
        "finished": done is not None and done.finished,
    }
    if failed := reason(campaign.runs / job.name)[0]:
        about["failed"] = failed
    path = campaign.runs / job.name / "record.json"
    if done is None or not path.exists():
        return about
    record = json.loads(path.read_text(encoding="utf-8"))
    data, made = record["data"], record["provenance"]
    return about | {
        "best_epoch": data["best_epoch"],
        "test": rounded(data["test"]),
        "parameters": data["parameters"],
        "run_minutes": data["device_minutes"],
        "device_minutes": campaign.measured(job).get(_CARD) or data["device_minutes"],
        "commit": made["commit"],
        "date": made["date"],
        "hardware": made["hardware"]["gpu"] or made["hardware"]["cpu"],
        "torch": made["versions"]["torch"],
    }


def changed(config: RunConfig) -> str:
    """Where a run departs from the preset it is named after."""
    try:
        usual = dict(fields_of(preset(config.name)))
    except UnknownNameError:
        return "not a preset"
    fields = dict(fields_of(config))
    names = [name for name in {**usual, **fields} if name not in _ASIDE and usual.get(name) != fields.get(name)]
    return ", ".join(f"{name} = {fields.get(name, 'none')}" for name in names)


def summed(about: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What all runs together took, and which are still to come."""
    missing = [run["name"] for run in about if not run["finished"]]
    minutes = round(sum(run.get("device_minutes", 0.0) for run in about), 2)
    return {"runs": list(about), "device_minutes": minutes, "missing": missing}


def unfinished(missing: Sequence[str], total: int) -> str:
    """A sentence for the finding of a record that is not complete."""
    if not missing:
        return ""
    named = ", ".join(missing[:4]) + (f" and {len(missing) - 4} more" if len(missing) > 4 else "")
    return f" Not complete: {len(missing)} of {total} runs are not finished or not measured yet ({named})."
