"""The errors wellposed raises; each message names the value that went wrong and what to do about it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class WellposedError(Exception):
    """Base of every error raised on purpose by this library."""


class ShapeError(WellposedError, ValueError):
    """A tensor, a size or an index does not fit the others."""


class ArgumentError(WellposedError, ValueError):
    """An argument is out of its range, or two exclude each other."""


class NotFiniteError(WellposedError, ValueError):
    """An input holds NaN or infinity."""


class TimeDomainError(WellposedError, ValueError):
    """A continuous system met a discrete one, or an operation meant for the other kind."""


class UnstableError(WellposedError, ValueError):
    """A pole lies where a stable system may not have one."""


class NotRealError(WellposedError, ValueError):
    """A real system was asked for, and this one maps real inputs to complex outputs."""


class IllConditionedError(WellposedError, ValueError):
    """A change of coordinates is singular to working precision."""


class ConvergenceError(WellposedError, ArithmeticError):
    """An iteration stopped before it reached the accuracy asked for."""


class FrozenError(WellposedError, AttributeError):
    """Something that does not change after it is made was assigned to."""


class RecordError(WellposedError, ValueError):
    """A record of an experiment is missing, damaged or written by another version."""


class DataError(WellposedError, ValueError):
    """A data set is missing, damaged, or not what its publisher's checksum says."""


class DeviceMemoryError(WellposedError, MemoryError):
    """A computation does not fit into the memory of its device."""


class MissingExtraError(WellposedError, ImportError):
    """An optional dependency is not installed."""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(f"this needs {package}: pip install 'wellposed[{extra}]'")


class UnknownNameError(WellposedError, KeyError):
    """A name that is not in the table; the message lists the nearest ones."""

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        known = sorted(known)
        near = difflib.get_close_matches(str(name), known, n=3, cutoff=0.5)
        hint = f"did you mean {' or '.join(map(repr, near))}?" if near else f"known: {', '.join(known)}"
        super().__init__(f"unknown {kind} {name!r}; {hint}")

    def __str__(self) -> str:
        return str(self.args[0])  # KeyError would show the repr
