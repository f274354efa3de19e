"""Experiments on trained models: runs that are made where they are missing, in slices of time, and measured once."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from wellposed._files import make_folder, write_whole
from wellposed.errors import NotFiniteError, RecordError
from wellposed.train import RunConfig, RunResult, load_run, run

_LEAST_MINUTES = 0.05
"""What is worth beginning for: three seconds."""
_PLAIN_FLOATS = 6
"""Significant digits of what is measured."""


_FOR_GOING_ON = ("checkpoints", "best", "epochs")
"""Nine tenths of a folder; the models before and after training stay, and all that was logged and measured."""


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
    shrink: Callable[[RunConfig], RunConfig] = field(default=lambda config: config)
    """Applied to every config: ``presets.tiny``, to try an experiment in seconds."""
    slim: bool = False
    """Whether runs that are measured give up what only going on with them would need."""
    say: Callable[[str], None] = field(default=lambda line: None)

    @property
    def minutes_left(self) -> float:
        """Of this slice."""
        return (self.deadline - time.monotonic()) / 60

    def job(self, config: RunConfig, seed: int, *, keep: Sequence[int] = (), suffix: str = "") -> Job:
        """The run of a preset with a seed, weights of some epochs kept."""
        name = f"{config.name}{suffix}-seed{seed}"
        config = self.shrink(config).replace(seed=seed)
        kept = tuple(epoch for epoch in keep if epoch < config.epochs)
        return Job(name, config.replace(evaluation=config.evaluation.replace(keep=(*kept, config.epochs))))

    def work(self, groups: Iterable[Sequence[Job]], measure: Callable[[RunResult, Measured], object]) -> None:
        """Train and measure one group after the other until all is done, or the time is up."""
        make_folder(self.runs)
        for jobs in groups:
            train(self, jobs)
            for job in jobs:
                done = self.result(job)
                if done is None or not done.finished:
                    continue
                try:
                    measure(done, self.measured(job))
                except TimeIsUp:
                    return
                if self.slim:
                    for name in _FOR_GOING_ON:
                        shutil.rmtree(done.folder / name, ignore_errors=True)

    def result(self, job: Job) -> RunResult | None:
        """The run as it stands; nothing where it has not begun."""
        try:
            return load_run(self.runs / job.name)
        except RecordError:
            return None

    def measured(self, job: Job) -> Measured:
        """What is known of a run besides its own record."""
        return Measured(self.runs / job.name / "measured.json", self)


def train(campaign: Campaign, jobs: Sequence[Job]) -> None:
    """Make the runs of a group that are missing, one after the other.

    All training of the experiments goes through here: whatever trains several at once takes its place.
    """
    for job in jobs:
        done = campaign.result(job)
        if done is not None and done.finished:
            continue
        if campaign.minutes_left < _LEAST_MINUTES:
            return
        left = campaign.minutes_left
        campaign.say(f"training {job.name}")
        try:
            run(
                job.config,
                campaign.runs / job.name,
                data=campaign.data,
                minutes=None if left == float("inf") else left,
                device=campaign.device,
                progress=False,
                summary=False,  # the certificates have what it would say
            )
        except NotFiniteError as error:  # the others need not wait for it; the record will miss it
            campaign.say(f"{job.name} is given up for now: {error}")


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
            self._values[name] = rounded(compute())
            write_whole(self._path, json.dumps(self._values) + "\n")
        return self._values[name]

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
        "note": job.config.note,
        "seed": job.config.seed,
        "epochs": 0 if done is None else done.epoch,
        "of_epochs": job.config.epochs,
        "finished": done is not None and done.finished,
    }
    path = campaign.runs / job.name / "record.json"
    if done is None or not path.exists():
        return about
    record = json.loads(path.read_text(encoding="utf-8"))
    data, made = record["data"], record["provenance"]
    return about | {
        "best_epoch": data["best_epoch"],
        "test": rounded(data["test"]),
        "parameters": data["parameters"],
        "device_minutes": data["device_minutes"],
        "commit": made["commit"],
        "date": made["date"],
        "hardware": made["hardware"]["gpu"] or made["hardware"]["cpu"],
        "torch": made["versions"]["torch"],
    }


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
