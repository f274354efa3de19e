"""The page of all published records, drawn once."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest

from wellposed.report import read_records, write_page

RESULTS = Path(__file__).parents[2] / "results"


@pytest.fixture(scope="session")
def published_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Drawing takes ten seconds: the processes of one run of the tests share it."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base  # the workers' folders are below one
    path = shared / "published" / "index.html"
    path.parent.mkdir(exist_ok=True)
    with open(path.with_name("lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return path if path.exists() else write_page(read_records(RESULTS), path)
