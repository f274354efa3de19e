"""``wellposed data fetch``, ``prepare`` and ``verify``."""

from __future__ import annotations

from pathlib import Path

from rich.progress import DownloadColumn, MofNCompleteColumn

from wellposed.cli._arguments import Folder
from wellposed.cli._progress import track_amounts
from wellposed.cli._words import keeping
from wellposed.cli.data._arguments import Name, Options, parsed


def fetch(name: Name, root: Folder = None) -> None:
    """Download and unpack what a task is built from. An interrupted download goes on where it stopped.

    Args:
        name: A task; 'wellposed data list' shows them.
        root: The data folder; $WELLPOSED_DATA or ~/.cache/wellposed/data if not given.
    """
    from wellposed import data

    with keeping(_goes_on), track_amounts(DownloadColumn()) as told:
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

    chosen = data.task(name, **parsed(options))
    with keeping(_goes_on), track_amounts(MofNCompleteColumn()) as told:
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

    print(f"sound: {data.verify(data.task(name, **parsed(options)), root)}")


def _goes_on() -> str:
    return "what is there is kept, and the same command goes on from it"


def _describe(folder: Path) -> None:
    from wellposed.data.store import read, splits

    for split in splits(folder):
        print(f"  {read(folder, split)}")
