"""Kernels compile for a card that this machine need not have."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from subprocesses import environment


def _can_compile() -> bool:
    if importlib.util.find_spec("triton") is None:
        return False
    import triton

    return any((Path(triton.__file__).parent / "backends" / "nvidia" / "bin").glob("ptxas*"))


@pytest.mark.slow
@pytest.mark.skipif(not _can_compile(), reason="Triton is not here, or without its assembler")
def test_every_kernel_compiles(tmp_path: Any):
    """In all precisions, also where a size is 1; the interpreter would not notice."""
    env = environment() | {"TRITON_CACHE_DIR": str(tmp_path)}
    env.pop("TRITON_INTERPRET", None)
    program = Path(__file__).with_name("offline.py")
    done = subprocess.run([sys.executable, str(program)], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert int(done.stdout.split()[0]) > 250
