"""``wellposed data list``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from wellposed.cli._arguments import Folder
from wellposed.errors import DataError


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
    from wellposed.data._cache import why_not

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
