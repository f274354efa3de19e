"""The tasks by name, and what can be done with one: fetch, prepare, verify, load."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from typing import Any

from wellposed.data import store
from wellposed.data._dataset import SequenceDataset
from wellposed.data.download import fetch as fetch_file
from wellposed.data.download import unpack
from wellposed.data.store import Progress
from wellposed.data.tasks import (
    SCIFAR,
    SMNIST,
    Image,
    ListOps,
    Pathfinder,
    PathX,
    PeerRead,
    Retrieval,
    Sinusoids,
    Task,
    Text,
    Toy,
)
from wellposed.errors import ArgumentError, DataError, UnknownNameError

_ALL = (ListOps, Text, Retrieval, PeerRead, Image, Pathfinder, PathX, SCIFAR, SMNIST, Sinusoids, Toy)
TASKS: dict[str, type[Task]] = {task.name: task for task in _ALL}
"""Every task of this library by its name."""


def task(name: str | Task, /, **options: Any) -> Task:
    """The task of a name with these parameters; a task of your own is passed through.

    >>> task("listops", seed=1).seed
    1
    """
    if isinstance(name, Task):
        if options:
            raise ArgumentError(f"give {', '.join(options)} to the task itself: {type(name).__name__}(...)")
        return name
    if isinstance(name, type) and issubclass(name, Task):
        parameters = ", ".join(f"{option}=..." for option in options)
        example = f"load({name.__name__}({parameters}))"
        raise ArgumentError(f"{name.__name__} is a class: pass a task made of it, as in {example}")
    if not isinstance(name, str):
        raise ArgumentError(f"a task is a name, such as 'listops', or a Task, not {name!r}")
    if name not in TASKS:
        raise UnknownNameError("task", name, TASKS)
    accepted = [field.name for field in fields(TASKS[name])]
    for option in options:
        if option not in accepted:
            raise UnknownNameError(f"option of {name}", option, accepted)
    return TASKS[name](**options)


def data_root(root: str | os.PathLike[str] | None = None) -> Path:
    """The data folder: the one given, else ``$WELLPOSED_DATA``, else ``~/.cache/wellposed/data``.

    Only the last is created when something is put there. One that was named must be there: a mistyped name would
    otherwise become an empty folder, in which everything is missing.
    """
    given = root or os.environ.get("WELLPOSED_DATA")
    try:
        data_dir = Path(given).expanduser() if given else Path.home() / ".cache" / "wellposed" / "data"
    except RuntimeError as error:  # of Path, where neither HOME nor the list of users says
        raise ArgumentError(
            f"{given or 'the home folder'} cannot be found ({error}): name the data folder, as root or in "
            "$WELLPOSED_DATA"
        ) from None
    _check_access(data_dir)
    if given and not data_dir.exists():
        instead = "leave root out" if root else "unset WELLPOSED_DATA"
        raise DataError(
            f"there is no folder {data_dir}: create it first (mkdir -p {shlex.quote(str(data_dir))}), or {instead}"
        )
    return data_dir


def _check_access(data_dir: Path) -> None:
    """Refuse a folder that cannot be looked into, before anything in it is taken for missing."""
    try:
        os.stat(data_dir / "prepared")
    except FileNotFoundError:
        pass
    except NotADirectoryError:
        raise DataError(f"{data_dir} is not a folder: give one as root, or in $WELLPOSED_DATA") from None
    except OSError as error:
        raise DataError(
            f"cannot look into {data_dir}: {error.strerror or error}; give yourself access to it, or give another root"
        ) from None


def load(
    name: str | Task, root: str | os.PathLike[str] | None = None, split: str = "train", **options: Any
) -> SequenceDataset:
    """A split of a task, prepared first if it has to be: from published files below ``root``, or generated.

    >>> import tempfile
    >>> test = load("sinusoids", tempfile.mkdtemp(), "test", problem="extrap", grid=(3, 2), steps=1000)
    >>> x, y = test[3]
    >>> x.shape, y.tolist()
    (torch.Size([1000, 1]), [50.0, 1.0])
    """
    return store.read(prepare(name, root, **options), split)


def prepare(
    name: str | Task,
    root: str | os.PathLike[str] | None = None,
    *,
    progress: Progress | None = None,
    closely: bool = False,
    **options: Any,
) -> Path:
    """Build a task unless it is there, sound and up to date; the folder it is in.

    Whether it is sound is told from sizes and times of the files, or, ``closely``, from every byte of them.
    """
    data_dir = data_root(root)
    return store.prepare(task(name, **options).resolved(data_dir), data_dir, progress, closely=closely)


def verify(name: str | Task, root: str | os.PathLike[str] | None = None, **options: Any) -> Path:
    """Compare every byte of a prepared task, and of its sources as far as they are there, with the manifest."""
    data_dir = data_root(root)
    chosen = task(name, **options).resolved(data_dir)
    if (reason := store.why_not(chosen, data_dir, closely=True)) is not None:
        remedy = "'wellposed data prepare'" if chosen.name in TASKS else "prepare(..., closely=True)"
        raise DataError(f"{chosen.folder(data_dir)}: {reason}; {remedy} builds it")
    return chosen.folder(data_dir)


def fetch(
    name: str | Task,
    root: str | os.PathLike[str] | None = None,
    *,
    progress: Callable[[str, int, int | None], None] | None = None,
) -> list[Path]:
    """Download and unpack what a task is built from, or repair it; what is there and sound is not fetched again."""
    data_dir, chosen = data_root(root), task(name)
    if not chosen.downloads:
        made = "is generated" if not chosen.published else "cannot be fetched"
        raise DataError(f"there is nothing to fetch for {chosen.name}, which {made}: see its page in the documentation")
    with suppress(DataError):
        found = chosen.sources(data_dir)
        chosen.check(data_dir)
        return found
    done = []
    for download in chosen.downloads:
        report = None if progress is None else lambda *bytes, file=download.file: progress(file, *bytes)
        archive = fetch_file(download, data_dir / "downloads", progress=report)
        done += unpack(archive, data_dir / chosen.unpack_to, limit=download.unpacked)
    chosen.sources(data_dir)  # a link in the way, which is left alone, would go unnoticed
    chosen.check(data_dir)
    return done
