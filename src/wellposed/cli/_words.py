"""What the library says, in the words of the command line."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager


def in_options(message: str, verb: Callable[..., None] | None) -> str:
    """A message with arguments written as options of the verb; others stay as they are.

    >>> def verb(method: str = "auto", stable: bool = False) -> None: ...
    >>> in_options("pass stable=True, or method='optimized' and field='complex'", verb)
    "pass --stable, or --method optimized and field='complex'"
    """
    names = inspect.signature(verb).parameters if verb else {}

    def option(found: re.Match[str]) -> str:
        name, value = found[1], found[2].strip("'")
        if name not in names:
            return found[0]
        dashed = name.replace("_", "-")
        return {"True": f"--{dashed}", "False": f"--no-{dashed}"}.get(value, f"--{dashed} {value}")

    return re.sub(r"\b([a-z_]+)=('[^']*'|\w+)", option, message)


@contextmanager
def keeping(kept: Callable[[], str]) -> Iterator[None]:
    """Let Ctrl-C say what is kept of the work done so far."""
    try:
        yield
    except KeyboardInterrupt:
        raise KeyboardInterrupt(kept()) from None
