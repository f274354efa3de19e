"""Unpack an archive that somebody else packed: whole or not at all, and nowhere but in its folder."""

from __future__ import annotations

import filecmp
import gzip
import os
import shutil
import tarfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedIOBase
from pathlib import Path
from typing import IO, Any, cast

from wellposed._locks import locked
from wellposed.data.download._members import Members
from wellposed.errors import DataError

LIMIT = 2 * 2**30
_BLOCK = 1 << 20
_LONGEST_READ = 1 << 24  # of headers, which tarfile reads whole whatever length they claim


def unpack(archive: Path, folder: Path, *, limit: int = LIMIT) -> list[Path]:
    """Unpack a .tar, .tar.gz, .tgz or .gz file, and return the files and folders it holds at its top.

    Only plain files and folders are unpacked, up to ``limit`` bytes, into a temporary neighbour and from there into
    place: what is missing there is added, what differs is replaced, and what the archive does not hold is left alone.
    A .gz that holds a tar is unpacked as one.
    """
    archive, folder = Path(archive), Path(folder)
    if not archive.is_file():
        raise DataError(f"there is no file {archive}: fetch it first")
    with locked(folder / f"{archive.name}.lock", error=DataError):
        return _unpack(archive, folder, limit)


def _unpack(archive: Path, folder: Path, limit: int) -> list[Path]:
    temporary = folder / f".{archive.name}.unpacking"
    try:
        shutil.rmtree(temporary, ignore_errors=True)  # of a process that was killed: the lock is ours
        temporary.mkdir()
        with _plain_errors(archive), _opened(archive) as file:
            _extract(_Reader(file, limit), archive, temporary, limit)
        return [_place(temporary / name, folder / name) for name in sorted(os.listdir(temporary))]
    except OSError as error:
        raise DataError(
            f"cannot unpack {archive} in {folder}: {error.strerror or error}; make room, or choose another folder"
        ) from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _opened(archive: Path) -> BufferedIOBase:
    return archive.open("rb") if archive.suffix == ".tar" else gzip.GzipFile(archive)


def _place(source: Path, target: Path) -> Path:
    if not os.path.lexists(target):
        os.rename(source, target)
    elif target.is_symlink():
        pass  # somebody's own, and not written through
    elif source.is_dir():
        for name in os.listdir(source):
            _place(source / name, target / name)
    elif not target.is_file() or not filecmp.cmp(source, target, shallow=False):
        os.replace(source, target)
    return target


def _extract(reader: _Reader, archive: Path, temporary: Path, limit: int) -> None:
    if archive.name.endswith((".tar", ".tar.gz", ".tgz")) or reader.holds_tar():
        _extract_tar(reader, temporary, limit)
    elif archive.suffix == ".gz":
        _copy(reader, temporary / archive.stem)
    else:
        raise DataError(f"cannot unpack {archive}: a .tar, .tar.gz, .tgz or .gz file is needed")


def _extract_tar(reader: _Reader, temporary: Path, limit: int) -> None:
    members = Members(limit)
    reader.limit = 2 * limit + _BLOCK  # with headers and padding, which Members does not count
    with tarfile.open(fileobj=cast("IO[bytes]", reader), mode="r:") as tar:
        for member in iter(tar.next, None):
            vars(tar)["members"].clear()  # every one would be kept
            path = temporary.joinpath(*members.admit(member))
            if member.isdir():
                path.mkdir(parents=True, exist_ok=True)
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            with cast("IO[bytes]", tar.extractfile(member)) as file:
                _copy(file, path)
    if reader.last != bytes(tarfile.BLOCKSIZE):  # what tarfile takes for the end may be a damaged header
        raise EOFError
    while reader.read(_BLOCK):  # to the checksum that ends a .gz
        pass


def _copy(source: Any, path: Path) -> None:
    with path.open("xb") as file:
        shutil.copyfileobj(source, file, _BLOCK)


@contextmanager
def _plain_errors(archive: Path) -> Iterator[None]:
    try:
        yield
    except EOFError:
        raise DataError(f"{archive} is truncated: remove it and fetch it again") from None
    except tarfile.ReadError as error:
        reason = "is truncated" if "unexpected end" in str(error) else f"is damaged ({error})"
        raise DataError(f"{archive} {reason}: remove it and fetch it again") from None
    except (tarfile.TarError, gzip.BadGzipFile, zlib.error, ValueError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{archive} is damaged ({error}): remove it and fetch it again") from None


class _Reader:
    """The bytes of an archive, unpacked and in order, up to a limit; keeps the last ones read."""

    def __init__(self, file: BufferedIOBase, limit: int) -> None:
        self._file, self.limit = file, limit
        self._ahead, self._position, self.last = b"", 0, b""

    def holds_tar(self) -> bool:
        """Whether the first block is the header of a tar."""
        self._ahead = self._file.read(tarfile.BLOCKSIZE)
        try:
            tarfile.TarInfo.frombuf(self._ahead, "utf-8", "surrogateescape")
        except tarfile.TarError:
            return False
        return True

    def read(self, size: int) -> bytes:
        """The next bytes, fewer only at the end."""
        if not 0 <= size <= _LONGEST_READ:
            raise tarfile.ReadError(f"it has a header of {size} bytes")
        block, self._ahead = self._ahead[:size], self._ahead[size:]
        block += self._file.read(size - len(block))
        self._position += len(block)
        if self._position > self.limit:
            raise DataError(
                f"the archive is not unpacked: it holds more than {self.limit} bytes; raise the limit if it may"
            )
        self.last = block
        return block

    def tell(self) -> int:
        """How many bytes were read."""
        return self._position

    def seek(self, position: int) -> int:
        """Go forward; nothing is read twice."""
        if position < self._position:
            raise tarfile.ReadError("it goes backwards")
        while self._position < position and self.read(min(position - self._position, _BLOCK)):
            pass
        return self._position
