"""Runs here leave no page unless a module asks for it: they are many, and it takes longer than they do."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True, scope="module")
def pages() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("wellposed.train._run.summarize", lambda folder: None)
        yield


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Ctrl-C means what it means on a terminal, also where the tests were started in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
