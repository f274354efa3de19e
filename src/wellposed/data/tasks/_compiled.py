"""The compiler of the inner loops, an optional dependency."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TypeVar, cast

from wellposed.errors import MissingExtraError

try:
    from numba import njit
except ImportError as missing:
    raise MissingExtraError("numba", "data") from missing

F = TypeVar("F", bound=Callable[..., object])


def compiled(function: F) -> F:
    """Compile a function; it runs without the interpreter's lock and is kept on disk.

    Wrappers are taken off first: run-time type checkers leave one that cannot be compiled.
    """
    return cast(F, njit(cache=True, nogil=True)(inspect.unwrap(function)))
