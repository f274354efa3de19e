"""Run Python as a user would: a process of its own, without the run-time type checks of the tests."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

import wellposed

SOURCE = Path(wellposed.__file__).resolve().parents[1]

_SERVER = """
import json, os, sys, types
import torch
for request in sys.stdin:
    child = os.fork()
    if not child:
        break
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
else:
    sys.exit()
import signal, warnings
code, arguments, environment, cwd, strict, streams = json.loads(request)
for number, (path, flags) in enumerate(((os.devnull, os.O_RDONLY), *((path, os.O_WRONLY) for path in streams))):
    os.dup2(os.open(path, flags), number)
sys.stdin = open(0, closefd=False)
signal.alarm(600)
os.chdir(cwd)
os.environ.clear()
os.environ.update(environment)
if strict:
    sys.warnoptions.append("error")
    warnings.simplefilter("error")
sys.argv = ["-c", *arguments]
main = sys.modules["__main__"] = types.ModuleType("__main__")
exec(compile(code, "<string>", "exec"), vars(main))
"""
"""Imports PyTorch once, which takes seconds, and forks for each request. A child leaves the loop and runs its code as
the last thing of the program, so that exceptions, exit codes and what is done at exit are the interpreter's own."""


def environment() -> dict[str, str]:
    """That of the tests, in which a process started anywhere finds the checkout under test."""
    path = os.pathsep.join([str(SOURCE), *filter(None, [os.environ.get("PYTHONPATH")])])
    return os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"}


@cache
def _server() -> subprocess.Popen[str]:
    command = [sys.executable, "-c", _SERVER]
    return subprocess.Popen(command, env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def _forked(code: str, arguments: tuple[str, ...], cwd: Path | None, strict: bool) -> subprocess.CompletedProcess[str]:
    server = _server()
    assert server.stdin
    assert server.stdout
    with tempfile.TemporaryDirectory() as folder:
        streams = [Path(folder, name) for name in ("out", "err")]
        for path in streams:
            path.touch()
        request = code, arguments, environment(), str(cwd or Path.cwd()), strict, [str(path) for path in streams]
        server.stdin.write(json.dumps(request) + "\n")
        server.stdin.flush()
        status = int(server.stdout.readline())
        return subprocess.CompletedProcess(["-c", *arguments], status, *(path.read_text() for path in streams))


def python(
    code: str, *arguments: str, cwd: Path | None = None, strict: bool = False, fresh: bool = False
) -> subprocess.CompletedProcess[str]:
    """``python -c code``; ``strict`` with warnings as errors, ``fresh`` in an interpreter that has imported nothing.

    Others are forked from one that has imported PyTorch, and nothing else.
    """
    if not fresh and sys.platform == "linux":
        return _forked(code, arguments, cwd, strict)
    command = [sys.executable, *(["-W", "error"] if strict else []), "-c", code, *arguments]
    return subprocess.run(command, env=environment(), capture_output=True, text=True, cwd=cwd, timeout=600, check=False)


def run_python(code: str, *, fresh: bool = False) -> str:
    """What ``code`` prints; its error output is shown where it fails, and a warning is a failure."""
    done = python(code, strict=True, fresh=fresh)
    assert done.returncode == 0, done.stderr
    return done.stdout
