"""From a name on the command line to an experiment and its record."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from wellposed import presets
from wellposed._checks import positive_int
from wellposed._files import check_folder, make_folder
from wellposed._locks import locked
from wellposed.errors import ArgumentError, RecordError, UnknownNameError
from wellposed.experiments._campaign import Campaign
from wellposed.experiments._experiment import Experiment, Result
from wellposed.records import Record, load_record, provenance, save_record
from wellposed.train._config import Precision
from wellposed.train._folder import start_name
from wellposed.train._stop import exiting_on_sigterm

T = TypeVar("T")
Track = Callable[[Iterable[T]], Iterable[T]]

NAMES = (
    "transfer-function",
    "cosine-response",
    "decay-convergence",
    "impulse-divergence",
    "resolvent-bound",
    "pseudospectrum",
    "transfer-perturbation",
    "gamma-tables",
    "condition-vs-size",
    "pareto",
    "default-perturbation",
    "any-matrix",
    "failure-modes",
    "robustness",
    "ablation",
    "lra",
    "certificates",
)
"""The experiments: theory in the order of the paper, then those on trained models."""
FULL = "-full"
"""What the name of a record ends with that was made at full size."""


def get(name: str) -> Experiment:
    """The experiment called ``name``; a file ``experiments/a_b.py`` holds the experiment ``a-b``."""
    if name not in NAMES:
        raise UnknownNameError("experiment", name, NAMES)
    return importlib.import_module(f"wellposed.experiments.{name.replace('-', '_')}").EXPERIMENT


def run(name: str, *, track: Track = lambda steps: steps, brief: bool = False) -> Record:
    """Run one experiment, or what is quick of it; ``track`` wraps its steps, for a progress bar."""
    experiment = get(name)
    start = time.perf_counter()
    # The seed that is recorded is the one that is used.
    seed = () if experiment.seed is None else (experiment.seed,)
    result = experiment.run(track, *seed, **(experiment.brief if brief else {}))
    seconds = time.perf_counter() - start
    command = "wellposed reproduce" if brief and experiment.brief else f"wellposed reproduce {name}"
    return _record(name, experiment, result, provenance(command, seconds, experiment.seed))


def run_full(
    name: str,
    *,
    runs: Path | None,
    data: Path | None = None,
    minutes: float | int | None = None,
    device: str = "auto",
    seeds: Sequence[int] | None = None,
    epochs: int | None = None,
    precision: Precision | None = None,
    start: str | None = None,
    only: Sequence[str] = (),
    records: Path | None = None,
    at_once: int = 1,
    tiny: bool = False,
    slim: bool = False,
    say: Callable[[str], None] = lambda line: None,
) -> Record:
    """The experiment at full size, on a GPU: what is missing below ``runs`` is trained, then measured.

    After ``minutes`` it stops with what there is; the same call goes on from there. ``epochs`` cuts longer runs short,
    their schedules too but for warm-ups of up to a fifth of them, ``precision`` takes another one than their presets,
    ``start`` is a run or a saved model whose weights all begin with; names say so. ``only`` names presets: others wait.
    ``records`` is where the record goes; what the one from before tells of runs stays, and those that
    are complete there are not trained again, wherever they were made.
    ``at_once`` runs are trained side by side, in processes. ``tiny`` makes every model and every data set small, to try
    the program: its record says so, and nothing else. ``slim`` removes checkpoints and kept epochs of runs that are
    measured, and of others all checkpoints but the last. Ctrl-C and SIGTERM end it as the time does, with a record,
    before they go on; a second one ends it at once.
    """
    experiment, began = get(name), time.monotonic()
    _check_slice(minutes, seeds)
    with going_on(records, name):  # what is wrong with the folder is found before anything is trained
        campaign = Campaign(
            check_full(name, runs),
            data,
            deadline=float("inf") if minutes is None else began + 60 * minutes,
            device=device,
            seeds=tuple(dict.fromkeys(experiment.seeds if seeds is None else seeds)),
            epochs=None if epochs is None else positive_int(epochs, "epochs"),
            precision=precision,
            start=start,
            only=_presets(only),
            before=_before(records, f"{name}{FULL}", tiny=tiny),
            at_once=positive_int(at_once, "at_once"),
            tiny=tiny,
            slim=slim,
            say=say,
        )
        from_ = start_name(start) if start else ""
        given = {"seeds": seeds or (), "epochs": [epochs or ""], "precision": [precision or ""], "only": only}
        command = _command(name, given | {"start": [from_]}, tiny=tiny)
        try:
            with exiting_on_sigterm():
                return _saved(_full_record(name, campaign, command, began), records)
        except (KeyboardInterrupt, SystemExit):  # as if the time were up, with a record
            _saved(_full_record(name, replace(campaign, deadline=began), command, began), records)
            raise


def _command(name: str, given: Mapping[str, Sequence[Any]], *, tiny: bool) -> str:
    """As a record tells it, whichever way it was called."""
    told = {option: " ".join(map(str, values)) for option, values in given.items()}
    options = "".join(f" --{option} {values}" for option, values in told.items() if values)
    return f"wellposed reproduce {name} --full --runs RUNS{options}{' --tiny' if tiny else ''}"


def _saved(record: Record, folder: Path | None) -> Record:
    if folder is not None:
        save_record(record, folder)
    return record


def _full_record(name: str, campaign: Campaign, command: str, began: float) -> Record:
    """Train and measure as long as there is time, and tell of what there is."""
    experiment = get(name)
    assert experiment.full is not None
    result = experiment.full(campaign)
    if campaign.tiny:
        result = replace(
            result, finding=f"Tiny models, of no meaning. {result.finding}", data=result.data | {"tiny": True}
        )
    made = provenance(command, time.monotonic() - began, experiment.seed)
    return _record(f"{name}{FULL}", experiment, result, made)


def _before(folder: Path | None, name: str, *, tiny: bool) -> dict[str, Any]:
    """Data of the record that is to be continued; tiny models and others know nothing of each other."""
    path = None if folder is None else folder / f"{name}.json"
    if path is None or not path.exists():
        return {}
    record = load_record(path)
    data = record.data
    if record.experiment != name:
        raise ArgumentError(f"{path} is a record of {record.experiment}: name another folder, or move it away")
    if data and not _is_whole(data):
        raise RecordError(f"{path} is damaged: its data do not tell of runs; move it away, or bring a copy back")
    if tiny and data and not data.get("tiny", False):
        raise ArgumentError(f"{path} is of models at full size, which tiny ones would replace: name another folder")
    return data if data.get("tiny", False) == tiny else {}


def _check_slice(minutes: float | int | None, seeds: Sequence[int] | None) -> None:
    if minutes is not None and not minutes > 0:
        raise ArgumentError(f"minutes = {minutes} leaves no time: it is a number above 0")
    if seeds is not None and not seeds:
        raise ArgumentError("seeds names none: leave it out for those of the experiment")


_OF_A_RUN = {"name", "seed", "of_epochs", "epochs", "finished"}


def _is_whole(data: Any) -> bool:
    """Whether there is in it what a campaign goes on from."""
    runs = data.get("runs") if isinstance(data, dict) else None
    if not isinstance(runs, list) or "missing" not in data:
        return False
    return all(isinstance(line, dict) and line.keys() >= _OF_A_RUN for line in runs)


def _presets(names: Sequence[str]) -> tuple[str, ...]:
    for name in names:
        if name not in presets.PRESETS:
            raise UnknownNameError("preset", name, presets.PRESETS)
    return tuple(names)


def told(records: Path, name: str) -> str:
    """What an interrupted full form has left, in words."""
    path = records / f"{name}{FULL}.json"
    return f"its record is {path}" if path.exists() else "there is no record of it yet"


@contextmanager
def going_on(records: Path | None, name: str) -> Iterator[None]:
    """Hold the record of a full form until it is saved: of two commands the later would undo what the other adds."""
    with ExitStack() as held:
        try:
            if records is not None:
                folder = make_folder(_no_file(check_folder(records)))
                held.enter_context(locked(folder / f".{name}.lock", wait=False))
        except BlockingIOError:
            raise RecordError(
                f"another command is at work on the record of {name} in {records}: wait for it, or name another folder"
            ) from None
        yield


def check_full(name: str, runs: Path | None) -> Path:
    """Refuse what ``run_full`` would refuse, before any folder is made; the folder of the runs."""
    if get(name).full is None:
        having = [each for each in NAMES if get(each).full is not None]
        raise ArgumentError(f"{name} needs no training: leave --full out; it is for {', '.join(having)}")
    if runs is None:
        raise ArgumentError("the full form trains models and keeps them: name a folder with --runs DIR")
    return _no_file(check_folder(runs))


def _no_file(folder: Path) -> Path:
    if folder.exists() and not folder.is_dir():
        raise RecordError(f"{folder} is a file: name a folder")
    return folder


def _record(name: str, experiment: Experiment, result: Result, made: dict[str, Any]) -> Record:
    return Record(
        experiment=name,
        title=experiment.title,
        source=experiment.source,
        paper=experiment.paper,
        finding=result.finding,
        claims=result.claims,
        data=result.data,
        provenance=made,
    )
