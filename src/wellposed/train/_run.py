"""``run``: from a config to a trained model, in one go or in slices, on whatever machine there is."""

from __future__ import annotations

import os
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from wellposed._files import make_folder
from wellposed.data import SequenceDataset
from wellposed.errors import ArgumentError, WellposedError
from wellposed.train import _record as record
from wellposed.train._checkpoint import Checkpoint, newest, sweep
from wellposed.train._config import RunConfig
from wellposed.train._course import finite
from wellposed.train._folder import (
    CHECKPOINTS,
    EPOCHS,
    FINAL,
    INITIAL,
    SUMMARY,
    default_folder,
    epoch_folder,
    make_run_folder,
    only_one,
    open_folder,
)
from wellposed.train._logs import Metrics
from wellposed.train._loop import Loop, load_best
from wellposed.train._machine import arithmetic, make_fabric
from wellposed.train._memory import measured, out_of_host_memory, out_of_memory
from wellposed.train._objective import make_model
from wellposed.train._progress import Silence, describe, make_progress
from wellposed.train._result import RunResult, is_finished, load_run, result_of
from wellposed.train._session import Session, make_session
from wellposed.train._splits import load_splits, normalized
from wellposed.train._start import begin_with_weights, check_start, note_start, noted_start
from wellposed.train._state import load_weights, restore, whole
from wellposed.train._stop import Stop, stopping_on_signals
from wellposed.train._summary import summarize

if TYPE_CHECKING:
    from lightning_fabric import Fabric

_RANK_STRIDE = 1_000_003
"""Between the seeds of dropout of two processes."""


def run(
    config: RunConfig,
    folder: str | os.PathLike[str] | None = None,
    *,
    data: str | os.PathLike[str] | None = None,
    datasets: Mapping[str, SequenceDataset] | None = None,
    minutes: float | int | None = None,
    device: str = "auto",
    devices: int | str | list[int] = 1,
    num_nodes: int = 1,
    strategy: Any = "auto",
    progress: bool | None = None,
    tensorboard: bool | None = None,
    summary: bool = True,
    resume: bool = True,
) -> RunResult:
    """Train, or go on training: what is in ``folder`` of the same config is continued, to the bit.

    - ``folder``: where everything goes; ``runs/NAME`` unless given.
    - ``data``: the data folder, as of ``wellposed.data.load``. ``datasets``: your own, ``{"train": ..., "val": ...,
      "test": ...}``.
    - ``minutes``: stop after so many with a checkpoint; the same call, here or elsewhere, goes on from it.
    - ``device``, ``devices``, ``num_nodes``, ``strategy``: as of Lightning Fabric; ``strategy="fsdp"`` shards the
      model. Batch norm takes its statistics over the share of each process, and keeps those of the first, or the
      mean of all with ``evaluation.settle``.
    - ``progress``: ``False`` for silence; a bar on a terminal and lines elsewhere, unless told otherwise.
    - ``tensorboard``: whether its files are written too; where it is installed, unless told otherwise.
    - ``summary=False``: leave out ``summary.html`` and the seconds it takes; ``summarize`` makes it later.
    - ``resume=False``: remove what an earlier run has left in the folder.

    Ctrl-C and SIGTERM too end it with a checkpoint, at the next step; a second one ends it at once.
    """
    return run_until(
        None,
        config,
        folder,
        data=data,
        datasets=datasets,
        minutes=minutes,
        machine={"device": device, "devices": devices, "num_nodes": num_nodes, "strategy": strategy},
        progress=lambda: make_progress(progress),
        tensorboard=tensorboard,
        summary=summary,
        resume=resume,
    )


def run_until(
    stop: Stop | None,
    config: RunConfig,
    folder: str | os.PathLike[str] | None,
    *,
    machine: Mapping[str, Any],
    progress: Callable[[], Silence],
    data: str | os.PathLike[str] | None = None,
    datasets: Mapping[str, SequenceDataset] | None = None,
    minutes: float | int | None = None,
    tensorboard: bool | None = None,
    summary: bool = True,
    resume: bool = True,
) -> RunResult:
    """``run``, until ``stop`` asks for an end; where there is none, until a signal does, which is then passed on."""
    started = time.monotonic()
    if minutes is not None and not minutes > 0:
        raise ArgumentError(f"minutes = {minutes}: give the run some time, or leave it out")
    place = default_folder(config) if folder is None else Path(folder)
    signals = Stop()
    with ExitStack() as undo:
        undo.enter_context(arithmetic(config.precision))
        fabric = make_fabric(**machine, precision=config.precision)
        show = progress() if fabric.is_global_zero else Silence()
        undo.callback(show.close)
        _by_first(fabric, lambda: _open(place, config, resume, undo))
        if is_finished(place):
            show.say(f"{place} is finished")
            if summary and fabric.is_global_zero and not (place / SUMMARY).exists():
                _summarize(place, show)
            return load_run(place)
        splits = _load(fabric, config, data, datasets)
        undo.enter_context(_seeded(config.seed + _RANK_STRIDE * fabric.global_rank, fabric.device))
        session = _begin(fabric, config, place, splits, show)
        names = session.objective.names
        metrics = Metrics(place, names, tensorboard=tensorboard) if fabric.is_global_zero else None
        if metrics is not None:
            undo.callback(metrics.close)
            metrics.begin(session.course.step)
        if stop is None:  # only now: what came before can be done again
            stop = signals = undo.enter_context(stopping_on_signals())
        loop = Loop(session, place, metrics, show, stop)
        loop.on_best = lambda: session.best_model().save_pretrained(place / "best", overwrite=True)
        loop.on_kept = lambda epoch: _keep(session, place, epoch)
        with _explaining_memory(session, splits["train"]):
            done = loop.run(None if minutes is None else started + 60 * minutes)
        result = _end(session, place, show, done, summary, stop)
    signals.deliver()
    return result


def _open(folder: Path, config: RunConfig, resume: bool, undo: ExitStack) -> None:
    make_run_folder(folder)
    undo.enter_context(only_one(folder))
    check_start(folder, config, resume=resume)
    open_folder(folder, config, resume=resume)
    sweep(folder / CHECKPOINTS)


def _by_first(fabric: Fabric, job: Callable[[], None]) -> None:
    """Let the first process do something; where it fails, all do."""
    problem: WellposedError | None = None
    if fabric.is_global_zero:
        try:
            job()
        except WellposedError as error:
            problem = error
    if fabric.world_size > 1 and fabric.broadcast(problem is not None) and problem is None:
        raise ArgumentError("the first process has refused to go on: see there")
    if problem is not None:
        raise problem


def _load(
    fabric: Fabric, config: RunConfig, data: Any, datasets: Mapping[str, SequenceDataset] | None
) -> dict[str, SequenceDataset]:
    """The splits there are."""
    if datasets is None:
        with fabric.rank_zero_first(local=True):  # which prepares them for the others
            splits = load_splits(config.data, data)
    else:
        splits = dict(datasets)
    selected = config.evaluation.select_on
    for split in ("train", selected):
        if split not in splits:
            raise ArgumentError(
                f"there is no split {split!r} among {', '.join(splits) or 'nothing'}: hold some data out for it, or "
                "set evaluation.select_on to the split that chooses the best epoch"
            )
    return {split: normalized(config.data, splits[split]) for split in ("train", "val", "test") if split in splits}


@contextmanager
def _seeded(seed: int, device: torch.device) -> Iterator[None]:
    """PyTorch's generators start from the seed; whoever called finds them as they were."""
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        yield


def _begin(
    fabric: Fabric, config: RunConfig, folder: Path, splits: dict[str, SequenceDataset], show: Silence
) -> Session:
    with fabric.rank_zero_first():
        checkpoint: Checkpoint | None = newest(folder / CHECKPOINTS)
    net = make_model(splits["train"], dict(config.model), config.seed)
    if checkpoint is not None:
        noted_start(folder)  # damaged, it is better told of now than at the end
        load_weights(net, checkpoint)
    else:
        begun = begin_with_weights(net, config)
        if fabric.is_global_zero:
            note_start(folder, begun)
            record.write_spectra(folder, net, "before")
            net.save_pretrained(folder / INITIAL, overwrite=True)
    session = make_session(config, fabric, net, splits)
    if checkpoint is not None:
        restore(session, checkpoint)
    step = session.course.step
    if fabric.is_global_zero:
        made = record.describe_machine(0.0, config)
        record.note_machine(folder, made, device=str(fabric.device), processes=fabric.world_size, step=step)
    weights = sum(p.numel() for p in net.parameters())
    begins = f"goes on at step {step}" if step else "begins"
    show.say(f"{folder} {begins}: {weights:,} parameters, {session.steps_an_epoch} steps an epoch, {fabric.device}")
    return session


def _keep(session: Session, folder: Path, epoch: int) -> None:
    """The weights as they are judged now, beside those of the epochs kept before."""
    weights = whole(session.net.state_dict())  # by all processes
    if session.fabric.is_global_zero:
        make_folder(folder / EPOCHS)
        session.shell.load_state_dict(weights)
        session.shell.save_pretrained(epoch_folder(folder, epoch), overwrite=True)


@contextmanager
def _explaining_memory(session: Session, dataset: SequenceDataset) -> Iterator[None]:
    """Where memory does not suffice, say what would."""
    size = session.config.data.batch_size // session.fabric.world_size
    try:
        yield
    except torch.cuda.OutOfMemoryError as error:
        traceback.clear_frames(error.__traceback__)  # what filled the memory is held by variables of calls that failed
    except RuntimeError as error:
        if "DefaultCPUAllocator" not in str(error):  # PyTorch has no class for it
            raise
        raise out_of_host_memory(size) from None
    else:
        return
    longest = dataset.lengths.argsort(descending=True)
    session.net.zero_grad(set_to_none=True)

    def step(size: int) -> None:
        batch = dataset.batch(longest[:size], device=session.fabric.device)
        session.fabric.backward(session.objective.loss(batch.through(session.model), batch.y))
        session.net.zero_grad(set_to_none=True)

    raise out_of_memory(size, measured(step, session.fabric.device), session.fabric.device) from None


def _summarize(folder: Path, show: Silence) -> None:
    """The page, where it can be drawn; a run is none the worse without it."""
    try:
        summarize(folder)
    except Exception as error:  # of whatever kind: the run is finished
        show.say(f"{folder} has no {SUMMARY}: {error}; 'wellposed summary {folder}' tries again")


def _end(session: Session, folder: Path, show: Silence, done: bool, summary: bool, stop: Stop) -> RunResult:
    """The model, what it makes of the test split, and the record; of a slice only the last."""
    fabric, course, config = session.fabric, session.course, session.config
    if done:
        load_best(session)
        session.model.eval()
        if "test" in session.evaluators:
            course.test = finite(session.evaluators["test"]())
        course.finished = True
    if fabric.is_global_zero:
        if done:
            model = session.best_model()
            model.save_pretrained(folder / FINAL, overwrite=True)
            record.write_spectra(folder, model, "after")
        facts = {
            "parameters": sum(p.numel() for p in session.net.parameters()),
            "device_minutes": round(course.seconds * fabric.world_size / 60, 3),
            "processes": fabric.world_size,
            **noted_start(folder),
        }
        made = record.describe_machine(course.seconds, config)
        record.write_record(folder, config, course, made, **facts)
        if done and summary:
            _summarize(folder, show)
    fabric.barrier()
    words = f"test {describe(course.test)}" if course.test else ""
    stops = f"stops{f' on {stop.reason}' if stop else ''} at step {course.step}, to be continued"
    show.say(f"{folder} {'is finished' if done else stops}  {words}".rstrip())
    return result_of(folder, config, course)
