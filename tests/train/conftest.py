"""Runs here leave no page unless a module asks for it: they are many, and it takes longer than they do."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True, scope="module")
def pages() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("wellposed.train._run.summarize", lambda folder: None)
        yield
