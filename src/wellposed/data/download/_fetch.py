"""Fetch a published file: resumed where it broke off, checked before it gets its name, by one process at a time."""

from __future__ import annotations

import errno
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from wellposed._locks import locked
from wellposed.data.download._http import Answer, BrokenConnection, StartOver, check_url, get
from wellposed.data.download._part import Part
from wellposed.data.store import algorithm_of, checksum_of, verify
from wellposed.errors import DataError

ATTEMPTS = 5  # in a row, none of which got further than the ones before
PAUSE = 0.5  # seconds before the second attempt; every further one waits twice as long

Progress = Callable[[int, int | None], object]
"""Called with the bytes that are here and the bytes there are, or None where the server does not say."""


@dataclass(frozen=True)
class Download:
    """A file as its publisher offers it."""

    url: str
    file: str
    """The name it gets."""
    checksum: str | None
    """``md5:...`` or ``sha256:...``; None where none is published: what is found is then kept in ``file.sha256``."""
    size: int | None
    """In bytes; None where it is not known."""
    unpacked: int = 2 * 2**30
    """Bytes it may come to when unpacked, and no more."""

    def __post_init__(self) -> None:
        check_url(self.url)
        if self.file != Path(self.file).name or self.file in ("", ".", ".."):
            raise DataError(f"{self.file!r} is no name of a file: give the name alone, without a folder")
        if self.checksum is not None:
            algorithm_of(self.checksum)


def fetch(download: Download, folder: Path, *, progress: Progress | None = None) -> Path:
    """The path of the file in ``folder``, fetched unless it is there.

    The bytes go to ``file.part``, which is kept when the connection breaks, for the next call to go on from. A file of
    this name that has another checksum is an error and is left alone.
    """
    target = Path(folder) / download.file
    if target.exists():
        return _present(download, target)
    with locked(target.with_name(f"{download.file}.lock"), error=DataError):
        if target.exists():  # by the process that was waited for
            return _present(download, target)
        part = Part(target, download.url)
        try:
            _complete(download, part, progress or (lambda done, total: None))
            _accept(download, part)
        except OSError as error:
            raise DataError(f"cannot write {part.path}: {error.strerror or error}") from None
    return target


def _present(download: Download, target: Path) -> Path:
    record = target.with_name(f"{download.file}.sha256")
    if download.checksum is not None:
        return verify(target, download.checksum)
    if record.is_file():
        return verify(target, f"sha256:{record.read_text().partition(' ')[0]}")
    return target


def _complete(download: Download, part: Part, progress: Progress) -> None:
    """Go on until the part is whole; give up when no attempt gets any further."""
    furthest, failures = part.size, 0
    while not part.is_whole(download.size):
        try:
            _attempt(download, part, progress)
        except StartOver:
            part.discard()
            failures += 1
        except BrokenConnection as error:
            failures = 0 if part.size > furthest else failures + 1
            furthest = max(furthest, part.size)
            if failures >= ATTEMPTS:
                raise DataError(
                    f"{download.url}: {error}, {failures} times in a row; {part.size} bytes are kept in {part.path}: "
                    f"call again to go on from there, or put the file there yourself as {part.target}"
                ) from None
            time.sleep(PAUSE * 2 ** max(failures - 1, 0))
        if failures >= ATTEMPTS:
            raise DataError(f"{download.url} cannot be resumed, nor fetched at once: fetch it by hand to {part.target}")


def _attempt(download: Download, part: Part, progress: Progress) -> None:
    with get(download.url, start=part.size, validator=part.validator) as answer:
        total = _expected(download, answer)
        if not answer.start:
            part.begin(answer.validator, total)
        _check_room(part, total)
        progress(part.size, total)
        with part.append() as file:
            for block in answer.blocks():
                if total is not None and part.size + len(block) > total:
                    raise DataError(f"{download.url} sends more than the {total} bytes it has: fetch it from elsewhere")
                _write(file, block, part, total)
                progress(part.size, total)
        if total is not None and part.size < total:
            raise BrokenConnection(f"the connection broke after {part.size} of {total} bytes")
        part.end()


def _expected(download: Download, answer: Answer) -> int | None:
    if download.size is not None and answer.total not in (None, download.size):
        raise DataError(
            f"{download.url} offers {answer.total} bytes, and the published file has {download.size}: it was replaced "
            "there; look for the original on its publisher's page"
        )
    total = download.size or answer.total
    if total is None and download.checksum is None:
        raise DataError(
            f"{download.url}: neither a length nor a checksum tells when the file is whole; fetch it by hand"
        )
    return total


def _check_room(part: Part, total: int | None) -> None:
    free = shutil.disk_usage(part.path.parent).free
    if total is not None and total - part.size > free:
        raise _full(part, total)


def _write(file: BinaryIO, block: bytes, part: Part, total: int | None) -> None:
    rest = memoryview(block)
    try:
        while rest:
            written = file.write(rest)
            part.size += written
            rest = rest[written:]
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise _full(part, total) from None
        raise


def _full(part: Part, total: int | None) -> DataError:
    missing = "an unknown number of" if total is None else str(total - part.size)
    free = shutil.disk_usage(part.path.parent).free
    return DataError(
        f"no room for {part.target}: {missing} more bytes are needed, and {free} are free; {part.size} are kept in "
        f"{part.path}: make room and call again, or choose another folder"
    )


def _accept(download: Download, part: Part) -> None:
    """Give the part its name where it is what was published; remove it where it is not."""
    found = checksum_of(part.path, algorithm=algorithm_of(download.checksum or f"sha256:{'0' * 64}"))
    if download.checksum not in (None, found):
        part.discard()
        raise DataError(
            f"{download.url} gave a file with the checksum {found}, and the published one is {download.checksum}: it "
            f"was altered on the way or replaced there and is removed; call again, or put the original at {part.target}"
        )
    if download.checksum is None:
        record = part.target.with_name(f"{download.file}.sha256")
        record.write_text(f"{found.removeprefix('sha256:')}  {download.file}\n")
    part.finish()
