"""Asking a run to end at its next step with a checkpoint, as Ctrl-C and ``kill`` do."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stop:
    """Whether someone wants a run to end, and who."""

    def __init__(self) -> None:
        self.reason = ""
        self._signal: signal.Signals | None = None

    def __bool__(self) -> bool:
        return bool(self.reason)

    def on(self, number: int) -> None:
        """A signal has come."""
        self._signal = signal.Signals(number)
        self.reason = self._signal.name

    def deliver(self) -> None:
        """Let a signal that has come do what it would have done: nothing is lost by now, and whoever called is not
        to go on as if it had not come."""
        if self._signal is None:
            return
        if self._signal == signal.SIGTERM and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            raise SystemExit(128 + signal.SIGTERM)  # as shells report it, but what is to be closed is closed
        signal.raise_signal(self._signal)


@contextmanager
def stopping_on_signals() -> Iterator[Stop]:
    """In this context the first SIGINT or SIGTERM only asks to stop; a second one does what it does elsewhere."""
    stop, before = Stop(), {}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def ask(number: int, frame: Any) -> None:
        stop.on(number)
        restore()

    if threading.current_thread() is threading.main_thread():  # others are not told of signals
        for number in _SIGNALS:
            # Who started this with a signal ignored, as nohup does, wants it ignored.
            if signal.getsignal(number) not in (signal.SIG_IGN, None):
                before[number] = signal.signal(number, ask)
    try:
        yield stop
    finally:
        restore()


@contextmanager
def exiting_on_sigterm() -> Iterator[None]:
    """In this context SIGTERM raises ``SystemExit`` where it would end the process without a word."""

    def leave(number: int, frame: Any) -> None:
        raise SystemExit(128 + number)

    main = threading.current_thread() is threading.main_thread()
    ours = main and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    if ours:
        signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        if ours:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
