"""``sweep``: many runs on one machine, several at once, each as if it were alone."""

from __future__ import annotations

import os
import pickle
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from wellposed._checks import positive_int
from wellposed.data import SequenceDataset
from wellposed.errors import ArgumentError, RecordError
from wellposed.train._at_once import Splits, cores, default_at_once, work
from wellposed.train._config import RunConfig
from wellposed.train._folder import CONFIG, check_resumable, clear, make_run_folder, only_one
from wellposed.train._grid import check_name, named
from wellposed.train._machine import check_machine
from wellposed.train._result import is_finished, load_run
from wellposed.train._runner import Runner
from wellposed.train._splits import data_key, load_splits
from wellposed.train._start import check_start
from wellposed.train._stop import stopping_on_signals
from wellposed.train._sweep_progress import Watcher, make_watcher
from wellposed.train._sweep_result import (
    SweepResult,
    is_sweep,
    read_configs,
    reason,
    result_of_sweep,
    write_configs,
)


def sweep(
    configs: Mapping[str, RunConfig] | Sequence[RunConfig],
    folder: str | os.PathLike[str],
    *,
    at_once: int | None = None,
    data: str | os.PathLike[str] | None = None,
    datasets: Mapping[str, SequenceDataset] | None = None,
    minutes: float | int | None = None,
    device: str = "auto",
    progress: bool | None = None,
    summary: bool = False,
    resume: bool = True,
    retry: bool = False,
) -> SweepResult:
    """Train all of them, or go on with those that are not finished: each in a folder of its name in ``folder``.

    - ``configs``: by name, as ``grid`` makes them; those of a list are named after what they differ in.
    - ``at_once``: how many processes share the GPU, or the cores; as many as fit in memory and have a core each, on a
      GPU at most 8, unless given. What comes out does not depend on it.
    - ``data``, ``datasets``: as of ``run``; data sets of your own are for all runs, and copied to each process.
    - ``minutes``: stop all after so many, with checkpoints; the same call, here or elsewhere, goes on from them.
    - ``device``: ``"auto"``, ``"cpu"`` or ``"cuda"``.
    - ``progress``: ``False`` for silence; a table on a terminal and lines elsewhere, unless told otherwise.
    - ``summary=True``: a page for each run, which takes seconds; ``summarize`` makes one later.
    - ``resume=False``: begin all of them anew.
    - ``retry``: try those again too whose numbers were not finite; other failures are tried again in any case.

    A run that fails leaves the others alone, and ``SweepResult.failed`` says why. A run whose process dies goes on in
    another. Ctrl-C and SIGTERM end all at their next step, with checkpoints; a second one ends them at once.
    """
    started = time.monotonic()
    if minutes is not None and not minutes > 0:
        raise ArgumentError(f"minutes = {minutes}: give the sweep some time, or leave it out")
    if at_once is not None:
        at_once = positive_int(at_once, "at_once")
    runs, root, kind = _checked(configs), Path(folder), check_machine(device)
    with ExitStack() as undo:
        make_run_folder(root)
        undo.enter_context(only_one(root))
        _open(root, runs, resume=resume)
        watch = make_watcher(progress)
        undo.callback(watch.close)
        todo, failed = _todo(root, runs, retry=retry)
        if todo:
            splits = _prepared(todo.values(), data, datasets)
            todo = dict(sorted(todo.items(), key=lambda run: -_left(root / run[0], run[1], splits)))
            pairs = [(config, splits[data_key(config.data)]) for config in todo.values()]
            at_once = min(len(todo), at_once or default_at_once(pairs, kind))
        before = f", {len(failed)} failed before" if failed else ""
        watch.say(f"{root}: {len(todo)} of {len(runs)} runs to do, {at_once if todo else 0} at once{before}")
        stop = undo.enter_context(stopping_on_signals())
        if todo:
            assert at_once is not None
            runner = Runner(
                root,
                todo,
                at_once=at_once,
                threads=max(1, cores() // at_once),
                first=_first_words(data, datasets, undo) | {"device": device, "summary": summary},
                deadline=None if minutes is None else started + 60 * minutes,
                stop=stop,
                watch=watch,
            )
            runner.run()
            failed |= runner.failed
        result = result_of_sweep(root, list(runs), failed)
        _conclude(watch, result)
    stop.deliver()
    return result


def _checked(configs: Mapping[str, RunConfig] | Sequence[RunConfig]) -> dict[str, RunConfig]:
    runs = dict(configs) if isinstance(configs, Mapping) else named(configs)
    if not runs:
        raise ArgumentError("there is nothing to sweep over: give one config at least")
    for name in runs:
        check_name(name)
    return runs


def _open(root: Path, runs: Mapping[str, RunConfig], *, resume: bool) -> None:
    """Refuse what does not go together before anything is begun, then note which runs there are."""
    if (root / CONFIG).exists():
        raise ArgumentError(f"{root} holds a single run: choose another folder for the sweep")
    for name, config in runs.items():
        check_start(root / name, config, resume=resume)
    for name, config in runs.items():
        if not resume and (root / name).is_dir():
            clear(root / name)
        elif (root / name / CONFIG).exists():
            check_resumable(root / name, config)
    earlier = read_configs(root) if is_sweep(root) else {}
    write_configs(root, {**earlier, **runs})


def _todo(root: Path, runs: Mapping[str, RunConfig], *, retry: bool) -> tuple[dict[str, RunConfig], dict[str, str]]:
    """What is not finished; and what has failed in a way that it would again."""
    todo, failed = {}, {}
    for name, config in runs.items():
        try:
            if is_finished(root / name):
                continue
        except RecordError as error:
            failed[name] = str(error)
            continue
        why, again = reason(root / name)
        if again or retry:
            todo[name] = config
        else:
            failed[name] = why
    return todo, failed


def _prepared(
    configs: Iterable[RunConfig],
    data: str | os.PathLike[str] | None,
    datasets: Mapping[str, SequenceDataset] | None,
) -> dict[str, Splits]:
    """The data of every run, prepared here, lest every process do it."""
    found: dict[str, Splits] = {}
    for config in configs:
        if data_key(config.data) not in found:
            found[data_key(config.data)] = load_splits(config.data, data) if datasets is None else datasets
    for splits in found.values():
        if "train" not in splits:
            raise ArgumentError(f"there is no split 'train' among {', '.join(splits) or 'nothing'}")
    return found


def _left(folder: Path, config: RunConfig, splits: Mapping[str, Splits]) -> float:
    """Work that is left to do for a run."""
    try:
        done = load_run(folder).epoch / config.epochs if (folder / CONFIG).exists() else 0.0
    except RecordError:  # whoever trains it will say why
        done = 0.0
    return work(config, splits[data_key(config.data)]) * (1 - done)


def _first_words(
    data: str | os.PathLike[str] | None,
    datasets: Mapping[str, SequenceDataset] | None,
    undo: ExitStack,
) -> dict[str, object]:
    """What every process is told first."""
    sent = None
    if datasets is not None:
        place = undo.enter_context(tempfile.TemporaryDirectory(prefix="wellposed-"))
        sent = str(Path(place) / "datasets")
        Path(sent).write_bytes(pickle.dumps(dict(datasets)))
    root = None if data is None else os.fspath(data)
    return {"argv": sys.argv, "data": root, "datasets": sent}


def _conclude(watch: Watcher, result: SweepResult) -> None:
    watch.close()
    watch.say(result.table())
