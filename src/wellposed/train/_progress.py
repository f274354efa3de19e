"""What one sees of a run: a bar on a terminal, a line an epoch elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

from wellposed.errors import MissingExtraError


class Silence:
    """Nothing is shown."""

    def say(self, text: str) -> None:
        """A line for people."""

    def begin(self, epoch: int, epochs: int, steps: int, done: int) -> None:
        """An epoch of so many steps starts, or goes on after ``done`` of them."""

    def step(self, done: int, metrics: Mapping[str, float], rate: float) -> None:
        """So many steps of the epoch are done, at ``rate`` sequences a second."""

    def close(self) -> None:
        """No more."""


class Lines(Silence):
    """Plain lines on standard error."""

    def say(self, text: str) -> None:
        """One of them."""
        sys.stderr.write(text + "\n")
        sys.stderr.flush()


class Bar(Silence):
    """A bar for the epoch, with loss, accuracy, sequences a second and the time left."""

    def __init__(self) -> None:
        try:
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
        except ImportError:
            raise MissingExtraError("rich", "train") from None
        text, numbers = TextColumn("{task.description}"), TextColumn("{task.fields[numbers]}")
        columns = (text, BarColumn(), MofNCompleteColumn(), numbers, TimeRemainingColumn())
        self._progress = Progress(*columns, console=Console(stderr=True), transient=True)
        self._task: Any = None

    def say(self, text: str) -> None:
        """Above the bar."""
        self._progress.console.print(text, markup=False, highlight=False)

    def begin(self, epoch: int, epochs: int, steps: int, done: int) -> None:
        """A bar in the place of the last one."""
        if self._task is not None:
            self._progress.remove_task(self._task)
        self._progress.start()
        self._task = self._progress.add_task(f"epoch {epoch}/{epochs}", total=steps, completed=done, numbers="")

    def step(self, done: int, metrics: Mapping[str, float], rate: float) -> None:
        """The bar moves."""
        numbers = f"{describe(metrics)}  {rate:.0f}/s"
        self._progress.update(self._task, completed=done, numbers=numbers)

    def close(self) -> None:
        """The bar goes."""
        self._progress.stop()


def make_progress(wanted: bool | None) -> Silence:
    """A bar or lines, whichever suits and can be had; nothing if it is not wanted."""
    if wanted is False:
        return Silence()
    return Bar() if sys.stderr.isatty() and find_spec("rich") else Lines()


def describe(metrics: Mapping[str, float], prefix: str = "") -> str:
    """Loss and accuracy in a few characters.

    >>> describe({"loss": 1.23456, "accuracy": 0.5})
    'loss 1.235 accuracy 50.00 %'
    """
    words = []
    for name, value in metrics.items():
        number = f"{100 * value:.2f} %" if name == "accuracy" else f"{value:.4g}"
        words.append(f"{prefix}{name} {number}")
    return " ".join(words)


def duration(seconds: float | int) -> str:
    """In the unit that suits it, to two digits: nobody should take it for more.

    >>> duration(95), duration(4000), duration(400000)
    ('1.6 min', '1.1 h', '4.6 days')
    """
    for unit, size in (("days", 86400), ("h", 3600), ("min", 60)):
        if seconds >= size:
            return f"{float(f'{seconds / size:.2g}'):g} {unit}"
    return f"{float(f'{seconds:.2g}'):g} s"
