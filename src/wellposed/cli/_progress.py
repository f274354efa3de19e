"""Progress bars on a terminal; elsewhere a plain line for everything that is begun."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)


def track_steps(name: str) -> Callable[[Iterable], Iterable]:
    """What an experiment called ``name`` wraps its steps in."""
    if not sys.stderr.isatty():
        print(f"running {name}", file=sys.stderr, flush=True)
        return lambda steps: steps

    def bar(steps: Iterable) -> Iterable:
        steps = list(steps)
        columns = (TextColumn(f"{name:20}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        with Progress(*columns, console=Console(stderr=True)) as progress:
            yield from progress.track(steps)

    return bar


@contextmanager
def track_amounts(amount: ProgressColumn) -> Iterator[Callable[[str, int, int | None], None]]:
    """What is told ``(what, done, total)`` while files are fetched or built; ``amount`` shows how much is done."""
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
