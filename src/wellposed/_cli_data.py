"""The verbs of ``wellposed data``."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from wellposed.errors import ArgumentError, DataError

Name = Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="NAME")]
Folder = Annotated[Path | None, tyro.conf.arg(metavar="DIR")]
Options = Annotated[tuple[str, ...], tyro.conf.arg(metavar="[KEY=VALUE ...]")]


def list_tasks(root: Folder = None) -> None:
    """List the tasks, and which of them are there.

    Args:
        root: The data folder; $WELLPOSED_DATA or ~/.cache/wellposed/data if not given.
    """
    from wellposed.data import TASKS, data_root

    place = data_root(root)
    print(f"in {place}")
    for name, kind in TASKS.items():
        print(f"  {name:20} {_state(kind(), place):26} {kind.title}")


def _state(task: Any, place: Path) -> str:
    from wellposed.data.store import why_not

    task = task.resolved(place)
    folder = task.folder(place)
    if why_not(task, place) is None:
        return f"ready, {sum(file.stat().st_size for file in folder.rglob('*.npy')) / 1e6:.0f} MB"
    try:
        found = task.sources(place)
    except DataError:
        return "to be fetched" if task.downloads else "not there"
    if folder.exists():
        return "stale, to be prepared"
    return "found, to be prepared" if found else "generated when asked for"


def fetch(name: Name, root: Folder = None) -> None:
    """Download and unpack what a task is built from. An interrupted download goes on where it stopped.

    Args:
        name: A task; 'wellposed data list' shows them.
        root: The data folder; $WELLPOSED_DATA or ~/.cache/wellposed/data if not given.
    """
    from wellposed import data

    with _bar(DownloadColumn()) as told:
        for path in data.fetch(name, root, progress=told):
            print(f"there: {path}")


def prepare(name: Name, root: Folder = None, options: Options = ()) -> None:
    """Build a task from its files, or generate it. An interrupted generation goes on where it stopped.

    Args:
        name: A task; 'wellposed data list' shows them.
        root: The data folder; $WELLPOSED_DATA or ~/.cache/wellposed/data if not given.
        options: Parameters of the task, such as seed=1.
    """
    from wellposed import data

    chosen = data.task(name, **_parsed(options))
    with _bar(MofNCompleteColumn()) as told:
        folder = data.prepare(chosen, root, progress=told, closely=True)
    print(f"prepared: {folder}")
    _describe(folder)


def verify(name: Name, root: Folder = None, options: Options = ()) -> None:
    """Compare every byte of a prepared task with its manifest.

    Args:
        name: A task; 'wellposed data list' shows them.
        root: The data folder; $WELLPOSED_DATA or ~/.cache/wellposed/data if not given.
        options: Parameters of the task, such as seed=1.
    """
    from wellposed import data

    print(f"sound: {data.verify(data.task(name, **_parsed(options)), root)}")


def show(
    name: Name,
    root: Folder = None,
    split: str = "train",
    count: int = 8,
    seed: int = 0,
    out: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None,
    options: Options = (),
) -> None:
    """Show a few samples of a task on the terminal, or draw them.

    Args:
        name: A task; 'wellposed data list' shows them.
        root: The data folder; $WELLPOSED_DATA or ~/.cache/wellposed/data if not given.
        split: train, val or test.
        count: How many samples.
        seed: Which samples.
        out: Draw them to this file (.png, .svg or .pdf) instead.
        options: Parameters of the task, such as seed=1.
    """
    from wellposed import data
    from wellposed.data import Order
    from wellposed.report import print_samples, save_samples

    chosen = data.task(name, **_parsed(options))
    with _bar(MofNCompleteColumn()) as told:
        data.prepare(chosen, root, progress=told)
    dataset = data.load(chosen, root, split)
    items = next(iter(Order(len(dataset), min(count, len(dataset)), seed=seed)))
    if out:
        print(f"figure: {save_samples(out, dataset, items)}")
    else:
        print(dataset)
        print_samples(Console(), dataset, items)


def _describe(folder: Path) -> None:
    from wellposed.data.store import _manifest, read

    for split in dict.fromkeys(name.partition("/")[0] for name in _manifest.read(folder)["arrays"]):
        print(f"  {read(folder, split)}")


def _parsed(options: tuple[str, ...]) -> dict[str, Any]:
    """``key=value`` with the value as JSON has it, or else as it stands."""
    found = {}
    for option in options:
        key, equals, value = option.partition("=")
        if not key or not equals:
            raise ArgumentError(f"an option is written KEY=VALUE, such as seed=1, got {option!r}")
        try:
            parsed = json.loads(value)
            found[key] = tuple(parsed) if isinstance(parsed, list) else parsed
        except (ValueError, RecursionError):
            found[key] = value
    return found


@contextmanager
def _bar(amount: Any) -> Iterator[Callable[[str, int, int | None], None]]:
    """A progress bar on a terminal; elsewhere one line for each thing that is begun."""
    begun: dict[str, Any] = {}
    if not sys.stderr.isatty():

        def say(what: str, done: int, total: int | None) -> None:
            if what not in begun:
                begun[what] = print(f"{what}: {done} of {total or 'unknown'}", file=sys.stderr, flush=True)

        yield say
        return
    columns = (TextColumn("{task.description:24}"), BarColumn(), amount, TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:

        def show(what: str, done: int, total: int | None) -> None:
            begun[what] = begun[what] if what in begun else progress.add_task(what)
            progress.update(begun[what], completed=done, total=total)

        yield show


DATA_VERBS: dict[str, Callable[..., None]] = {
    "list": list_tasks,
    "fetch": fetch,
    "prepare": prepare,
    "verify": verify,
    "show": show,
}
