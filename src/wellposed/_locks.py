"""A lock between processes that the system releases when its holder dies, however it dies."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from wellposed.errors import RecordError, WellposedError

if sys.platform == "win32":
    import msvcrt

    def _acquire(handle: int, wait: bool) -> None:
        while True:
            try:
                return msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
            except OSError:
                if not wait:
                    raise BlockingIOError from None
                time.sleep(0.05)

    def _release(handle: int) -> None:
        os.lseek(handle, 0, os.SEEK_SET)
        msvcrt.locking(handle, msvcrt.LK_UNLCK, 1)
else:
    try:
        import fcntl
    except ImportError:  # a Python built for a system without locks
        fcntl = None

    def _acquire(handle: int, wait: bool) -> None:
        if fcntl is None:
            raise OSError(f"this Python ({sys.platform}) can lock no files")
        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))

    def _release(handle: int) -> None:
        if fcntl is not None:
            # Said aloud: closing would not release a lock that a forked child still has open.
            fcntl.flock(handle, fcntl.LOCK_UN)


@contextmanager
def locked(path: Path, *, wait: bool = True, error: type[WellposedError] = RecordError) -> Iterator[None]:
    """Hold the lock file ``path``, which is created here and removed at the end.

    Whoever else holds it is waited for, or, without ``wait``, answered with BlockingIOError; where there can be no lock
    ``error`` is raised.

    Other processes and other threads wait alike, and so would the holder itself: it may not ask twice. The lock lies on
    the open file, not in its existence, so that a file left by a process that was killed locks nobody out.
    """
    handle = _hold(path, wait, error)
    try:
        yield
    finally:
        with suppress(OSError):  # removed while held: nobody can be inside with another file of this name
            os.unlink(path)
        _release(handle)
        os.close(handle)


def _hold(path: Path, wait: bool, error: type[WellposedError]) -> int:
    while True:
        handle = _open(path, error)
        try:
            _acquire(handle, wait)
            if _is_still(path, handle):
                return handle
        except BlockingIOError:
            os.close(handle)
            raise
        except OSError as problem:
            os.close(handle)
            raise error(
                f"cannot lock {path}: {problem.strerror or problem}; name a folder on a file system with locks"
            ) from None
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)


def _open(path: Path, error: type[WellposedError]) -> int:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as problem:
        raise error(
            f"cannot create the lock {path}: {problem.strerror or problem}; choose a folder that can be written"
        ) from None


def _is_still(path: Path, handle: int) -> bool:
    """Whether the file that was locked is the one of this name: the last holder removes it."""
    try:
        return os.path.samestat(os.fstat(handle), os.stat(path))
    except FileNotFoundError:
        return False
