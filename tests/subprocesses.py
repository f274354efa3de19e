"""Run Python as a user would: a fresh interpreter, without the run-time type checks of the tests."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import wellposed

SOURCE = Path(wellposed.__file__).resolve().parents[1]


def environment() -> dict[str, str]:
    """That of the tests, in which a process started anywhere finds the checkout under test."""
    path = os.pathsep.join([str(SOURCE), *filter(None, [os.environ.get("PYTHONPATH")])])
    return os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"}


def run_python(code: str) -> str:
    """What ``code`` prints; its error output is shown where it fails."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
