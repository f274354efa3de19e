"""``wellposed data list``."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wellposed.cli._arguments import Folder
from wellposed.errors import DataError, WellposedError

if TYPE_CHECKING:
    from wellposed.data import Task
    from wellposed.data.store import Build


def list_tasks(root: Folder = None) -> None:
    """List the tasks, and which of them are there; those prepared with other parameters below each.

    Args:
        root: The data folder; $WELLPOSED_DATA or ~/.cache/wellposed/data if not given.
    """
    from wellposed.data import TASKS, data_root
    from wellposed.data.store import builds

    place = data_root(root)
    print(f"in {place}")
    prepared = [(build, _prepared_state(build, place)) for build in builds(place)]
    for name, kind in TASKS.items():
        default = kind().resolved(place)
        print(f"  {name:20} {_state(default, place):26} {kind.title}")
        for build, state in prepared:
            if build.task == name and build.folder != default.folder(place):
                print(f"    {build.folder.relative_to(place)}: {state}, {_size(build.folder)}")
                print(f"      {_options(build.parameters, default)}")
    for build, state in prepared:
        if build.task not in TASKS:
            print(f"  {build.task:20} {state}, {_size(build.folder)}: {build.folder.relative_to(place)}")
    described = {build.folder for build, _ in prepared}
    for folder in sorted((place / "prepared").glob("[!.]*")):
        if folder not in described:
            print(f"  prepared/{folder.name}: damaged, {_size(folder)}")


def _state(task: Task, place: Path) -> str:
    from wellposed.data.store import why_not

    folder = task.folder(place)
    if why_not(task, place) is None:
        return f"ready, {_size(folder)}"
    try:
        found = task.sources(place)
    except DataError:
        return "to be fetched" if task.downloads else "not there"
    if folder.exists():
        return "stale, to be prepared"
    return "found, to be prepared" if found else "generated when asked for"


def _size(folder: Path) -> str:
    size = sum(file.stat().st_size for file in folder.rglob("*.npy")) / 1e6
    return f"{size:.0f} MB" if size >= 10 else f"{size:.2g} MB"


def _options(parameters: dict[str, Any], default: Task) -> str:
    """What ``--options`` was, as it can be typed again."""
    usual = json.loads(json.dumps(asdict(default)))
    other = {key: value for key, value in parameters.items() if key not in usual or usual[key] != value}
    words = (value if isinstance(value, str) else json.dumps(value, separators=(",", ":")) for value in other.values())
    return " ".join(f"{key}={word}" for key, word in zip(other, words, strict=True)) or "the default parameters"


def _prepared_state(build: Build, place: Path) -> str:
    """Ready, or why not."""
    from wellposed.data import TASKS
    from wellposed.data.store import why_not

    if build.task not in TASKS:
        return "a task of your own"
    try:
        given = {key: tuple(value) if isinstance(value, list) else value for key, value in build.parameters.items()}
        task = TASKS[build.task](**given)
    except (TypeError, WellposedError):  # parameters that this version does not know
        return "of another version"
    if task.folder(place) != build.folder:
        return "of another version"
    reason = why_not(task, place)
    return "ready" if reason is None else f"stale ({reason})"
