"""Where a number comes from: command, commit, seed, versions, hardware."""

from __future__ import annotations

import datetime
import os
import platform
import subprocess
from pathlib import Path
from typing import Any

import numpy
import scipy
import torch

from wellposed._checks import seed as checked_seed


def provenance(command: str, seconds: float, seed: int | None = None) -> dict[str, Any]:
    """What a reader needs to run it again and to understand a difference. ``seed=None``: nothing is random."""
    from wellposed import __version__  # here: the package may still be importing the room that asks for a record

    return {
        "command": command,
        "commit": _commit(),
        "seed": None if seed is None else checked_seed(seed),
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "seconds": round(seconds, 2),
        "versions": {
            "wellposed": __version__,
            "python": platform.python_version(),
            "torch": torch.__version__,
            "numpy": numpy.__version__,
            "scipy": scipy.__version__,
        },
        "hardware": {
            "cpu": _cpu(),
            "threads": torch.get_num_threads(),
            "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        },
    }


def _commit() -> str:
    """The commit of the checkout this package lives in, with a mark where files differ from it.

    A copy that travelled without its history is told by ``WELLPOSED_COMMIT``.
    """
    if told := os.environ.get("WELLPOSED_COMMIT"):
        return told
    here = Path(__file__).resolve().parent

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(here), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()

    try:
        tracked = git("ls-files", Path(__file__).name)
        if not tracked:
            return "unknown"
        changed = git("status", "--porcelain", "--untracked-files=no", "--", str(here.parent))
        return git("rev-parse", "HEAD") + (" with local changes" if changed else "")
    except (OSError, subprocess.SubprocessError):
        return "unknown"


def _cpu() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return f"{line.split(':', 1)[1].strip()}, {os.cpu_count()} cores"
    except OSError:
        pass
    return f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores"
