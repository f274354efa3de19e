"""Training the runs of an experiment: one after the other, or side by side, within the time there is."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from wellposed.errors import ArgumentError, NotFiniteError, RecordError
from wellposed.presets._tasks import shape_of
from wellposed.train import RunConfig, run, sweep
from wellposed.train._folder import FAILED
from wellposed.train._sweep_result import note_failure

if TYPE_CHECKING:
    from wellposed.experiments._campaign import Campaign, Job

LEAST_MINUTES = 0.05
"""What is worth beginning for: three seconds."""
_LONGEST_WARMUP = 0.2
"""Share of a run cut short that its warm-up may take without being cut too."""
CARD = "card"
"""The name under which a run's share of the device's time is kept, and how many of its seconds that is for."""


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
    if campaign.minutes_left - campaign.reserve < LEAST_MINUTES:
        return
    began, before = time.monotonic(), [_seconds(campaign, job) for job in jobs]
    try:
        work(campaign, jobs)
    finally:  # a signal ends it too
        _share_out(campaign, jobs, before, (time.monotonic() - began) / 60)


def _share_out(campaign: Campaign, jobs: Sequence[Job], before: Sequence[float], minutes: float) -> None:
    """Note each run's part; one that is alone has been at work all the time."""
    after = [_seconds(campaign, job) for job in jobs]
    # A run that has gone back to an older checkpoint has less behind it than before.
    spent = [max(now - first, 0.0) for first, now in zip(before, after, strict=True)] if len(jobs) > 1 else after
    for job, first, now, seconds in zip(jobs, before, after, spent, strict=True):
        if seconds > 0:
            charged = card_minutes(campaign, job, first) + minutes * seconds / sum(spent)
            try:
                campaign.measured(job).put(CARD, {"minutes": charged, "seconds": now})
            except RecordError as error:
                campaign.say(f"the minutes of {job.name} are not noted: {error}")


def card_minutes(campaign: Campaign, job: Job, seconds: float) -> float:
    """A run's share of the device's time so far; what a killed slice could not share out counts in full."""
    told = campaign.measured(job).get(CARD) or {"minutes": 0.0, "seconds": 0.0}
    return told["minutes"] + max(seconds - told["seconds"], 0.0) / 60


def _seconds(campaign: Campaign, job: Job) -> float:
    done = campaign.result(job)
    return 0.0 if done is None else done.seconds


def _train_together(campaign: Campaign, jobs: Sequence[Job]) -> None:
    """In processes, which a sweep hands them to."""
    campaign.say(f"training {campaign.at_once} at once: {', '.join(job.name for job in jobs)}")
    try:
        result = sweep(
            {job.name: job.config for job in jobs},
            campaign.runs,
            at_once=campaign.at_once,
            data=campaign.data,
            minutes=_minutes(campaign),
            device=campaign.device,
            progress=False,
        )
    except RecordError as error:  # another command at work there; what is finished can be measured all the same
        campaign.say(f"nothing is trained now: {error}")
        return
    for name, why in result.failed.items():
        campaign.say(f"{name} has failed: {why}")
    for name, done in result.items():
        campaign.say(f"{name}: {done.epoch} of {done.config.epochs} epochs")


def _train_alone(campaign: Campaign, jobs: Sequence[Job]) -> None:
    """One after the other, in this process."""
    for job in jobs:
        campaign.say(f"training {job.name}")
        with suppress(OSError):  # there is none, as a rule
            (campaign.runs / job.name / FAILED).unlink()
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
        except RecordError as error:  # nor for a folder that cannot be read or written
            campaign.say(f"{job.name} cannot go on: {error}")
        except ArgumentError as error:  # weights to start from may be those of another preset
            if campaign.start is None:
                raise
            campaign.say(f"{job.name} cannot begin: {error}")


def _minutes(campaign: Campaign) -> float | None:
    left = campaign.minutes_left - campaign.reserve
    return None if left == float("inf") else max(left, 1e-6)


def shortened(config: RunConfig, epochs: int | None) -> RunConfig:
    """The same in fewer epochs: its schedule shrinks with them, but for the warm-up where there is room for it.

    That is up to a fifth of the run, or the share it had before. What Adam and the first layers need of it does not
    depend on how much comes after.
    """
    epochs = min(epochs or config.epochs, config.epochs)
    share, schedule = epochs / config.epochs, config.schedule
    shape = shape_of(config.data.task, config.data.options)
    steps_an_epoch = max(shape.train // config.data.batch_size, 1)
    warmup = schedule.warmup_steps
    long = schedule.warmup_epochs if warmup is None else warmup / steps_an_epoch
    kept = min(1.0, max(_LONGEST_WARMUP * epochs / long, share)) if long else 1.0
    schedule = schedule.replace(
        warmup_epochs=round(kept * schedule.warmup_epochs, 6) or 0,
        warmup_steps=None if warmup is None else max(round(kept * warmup), 1),
        steps=None if schedule.steps is None else max(round(share * schedule.steps), 1),
    )
    return config.replace(epochs=epochs, schedule=schedule)
