"""A lock between processes that the system releases when its holder dies, however it dies."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from wellposed.errors import DataError

if sys.platform == "win32":
    import msvcrt

    def _acquire(handle: int) -> None:
        while True:
            try:
                return msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
            except OSError:
                time.sleep(0.05)

    def _release(handle: int) -> None:
        os.lseek(handle, 0, os.SEEK_SET)
        msvcrt.locking(handle, msvcrt.LK_UNLCK, 1)
else:
    try:
        import fcntl
    except ImportError:  # a Python built for a system without locks
        fcntl = None

    def _acquire(handle: int) -> None:
        if fcntl is None:
            raise DataError(f"this Python ({sys.platform}) can lock no files: prepare the data set on another machine")
        fcntl.flock(handle, fcntl.LOCK_EX)

    def _release(handle: int) -> None:
        if fcntl is not None:
            # Said aloud: closing would not release a lock that a forked child still has open.
            fcntl.flock(handle, fcntl.LOCK_UN)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock file ``path``, waiting for whoever holds it; it is created here and removed at the end.

    Other processes and other threads wait alike, and so would the holder itself: it may not ask twice. The lock lies on
    the open file, not in its existence, so that a file left by a process that was killed locks nobody out.
    """
    handle = _hold(path)
    try:
        yield
    finally:
        with suppress(OSError):  # removed while held: nobody can be inside with another file of this name
            os.unlink(path)
        _release(handle)
        os.close(handle)


def _hold(path: Path) -> int:
    while True:
        handle = _open(path)
        try:
            _acquire(handle)
            if _is_still(path, handle):
                return handle
        except OSError as error:
            os.close(handle)
            raise DataError(
                f"cannot lock {path}: {error.strerror or error}; keep the data on a file system with locks"
            ) from None
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)


def _open(path: Path) -> int:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        raise DataError(
            f"cannot create the lock {path}: {error.strerror or error}; choose a folder that can be written"
        ) from None


def _is_still(path: Path, handle: int) -> bool:
    """Whether the file that was locked is the one of this name: the last holder removes it."""
    try:
        return os.path.samestat(os.fstat(handle), os.stat(path))
    except FileNotFoundError:
        return False
