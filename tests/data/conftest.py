"""Nothing here is fetched through a proxy, and nothing is waited for."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from wellposed.data.download import _fetch, _http


@pytest.fixture(autouse=True)
def _direct(monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr(_fetch, "PAUSE", 0.001)
    monkeypatch.setattr(_http, "TIMEOUT", 5.0)


@pytest.fixture(scope="session")
def official() -> Path:
    """A folder with the official files, in the layouts they are unpacked to."""
    if folder := os.environ.get("WELLPOSED_TEST_DATA"):
        return Path(folder)
    pytest.skip("WELLPOSED_TEST_DATA does not name a folder with the official files")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A real file system of 200 kB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=200k", "tmpfs", str(folder)]
    if sys.platform != "linux" or os.geteuid() or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("mounting a small disk is not permitted here; a limit on the size of files is tried elsewhere")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)
