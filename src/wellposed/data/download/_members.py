"""Which members of a tar are unpacked: plain files and folders with plain names, within a limit."""

from __future__ import annotations

import re
import tarfile
import unicodedata

from wellposed.errors import DataError

_MOST = 4_000_000


class Members:
    """Admits the members of one archive in turn; the first that should not be there is an error."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._bytes = self._count = 0
        self._seen: dict[str, tuple[str, bool]] = {}

    def admit(self, member: tarfile.TarInfo) -> list[str]:
        """The parts of the path to unpack a member to, below the folder it is unpacked in."""
        if not (member.isdir() or member.isreg()) or member.issparse():
            raise _refused(member.name, f"is {_kind(member)}, and only plain files and folders are unpacked")
        self._weigh(member)
        parts = _parts(member.name)
        if not parts and not member.isdir():
            raise _refused(member.name, "is a file without a name")
        for depth in range(1, len(parts)):
            self._enter(parts[:depth], member.name, folder=True)
        if parts:
            self._enter(parts, member.name, folder=member.isdir())
        return parts

    def _weigh(self, member: tarfile.TarInfo) -> None:
        self._count += 1
        self._bytes += member.size
        if member.size < 0 or self._bytes > self._limit:
            raise _refused(member.name, f"takes the archive beyond the {self._limit} bytes it may unpack to")
        if self._count > _MOST:
            raise _refused(member.name, f"is one more than the {_MOST} members an archive may have")

    def _enter(self, parts: list[str], name: str, *, folder: bool) -> None:
        """Refuse what some file system takes for the same: the same name, in another case or composed otherwise."""
        path = "/".join(parts)
        key = unicodedata.normalize("NFC", path).casefold()
        if key not in self._seen:
            self._seen[key] = (path, folder)
            return
        spelling, was_folder = self._seen[key]
        if spelling != path:
            raise _refused(name, f"differs from {spelling!r} only in case")
        if not (folder and was_folder):
            raise _refused(name, "is there twice")


def _parts(name: str) -> list[str]:
    if name.startswith("/") or re.match(r"[A-Za-z]:", name):
        raise _refused(name, "is an absolute path")
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise _refused(name, "leads out of its folder")
    if "\\" in name or "\0" in name:
        raise _refused(name, "has a backslash or a NUL in its name")
    return parts


def _kind(member: tarfile.TarInfo) -> str:
    if member.issym() or member.islnk():
        return f"a link to {member.linkname!r}"
    return "a sparse file" if member.issparse() else "a device or another special file"


def _refused(name: str, reason: str) -> DataError:
    return DataError(f"the archive is not unpacked: its member {name!r} {reason}; fetch it from its publisher")
