"""Archives are unpacked whole or not at all, and never outside of their folder."""

from __future__ import annotations

import gzip
import io
import os
import stat
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from wellposed.data.download._archive import unpack
from wellposed.errors import DataError

FILES = {"set/a.txt": b"alpha" * 1000, "set/sub/b.bin": os.urandom(200_000), "readme": b"read me"}


def pack(path: Path, *members: tuple[tarfile.TarInfo, bytes]) -> Path:
    with tarfile.open(path, "w" if path.suffix == ".tar" else "w:gz") as tar:
        for member, content in members:
            member.size = len(content) if member.isreg() else 0
            tar.addfile(member, io.BytesIO(content))
    return path


def file(name: str, content: bytes = b"x") -> tuple[tarfile.TarInfo, bytes]:
    return tarfile.TarInfo(name), content


def special(name: str, kind: bytes, target: str = "") -> tuple[tarfile.TarInfo, bytes]:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, target
    return member, b""


def official(path: Path) -> Path:
    return pack(path, special("set", tarfile.DIRTYPE), *(file(name, content) for name, content in FILES.items()))


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("name", ["x.tar", "x.tar.gz", "x.tgz", "x.gz"])
def test_an_archive_is_unpacked(tmp_path, name):
    archive, folder = official(tmp_path / name), tmp_path / "data"
    assert unpack(archive, folder) == [folder / "readme", folder / "set"]
    assert contents(folder) == FILES
    assert sorted(os.listdir(folder)) == ["readme", "set"]


def test_a_single_file(tmp_path):
    archive = tmp_path / "train-labels-idx1-ubyte.gz"
    archive.write_bytes(gzip.compress(b"bytes" * 100))
    assert unpack(archive, tmp_path) == [tmp_path / "train-labels-idx1-ubyte"]
    assert (tmp_path / "train-labels-idx1-ubyte").read_bytes() == b"bytes" * 100


def test_again_it_repairs_and_leaves_alone_what_it_does_not_hold(tmp_path):
    archive, folder = official(tmp_path / "x.tgz"), tmp_path / "data"
    unpack(archive, folder)
    before = (folder / "readme").stat()
    (folder / "set" / "a.txt").write_bytes(b"damaged")
    (folder / "set" / "mine.txt").write_bytes(b"mine")
    missing = next(path for path in sorted(folder.rglob("*")) if path.is_file() and path.stem not in "a readme mine")
    missing.unlink()
    unpack(archive, folder)
    assert contents(folder) == FILES | {"set/mine.txt": b"mine"}
    assert (folder / "readme").stat().st_mtime_ns == before.st_mtime_ns, "what is sound is not written again"


@pytest.mark.parametrize("name", ["x.tar", "x.tar.gz"])
@pytest.mark.parametrize("share", [0.05, 0.5, 0.9])
def test_a_truncated_archive_leaves_nothing(tmp_path, name, share):
    archive, folder = official(tmp_path / name), tmp_path / "data"
    whole = archive.read_bytes()
    archive.write_bytes(whole[: int(len(whole) * share)])
    with pytest.raises(DataError, match="truncated: remove it and fetch it again"):
        unpack(archive, folder)
    assert os.listdir(folder) == []


def test_an_archive_cut_between_two_members_is_truncated(tmp_path):
    archive = pack(tmp_path / "x.tar", file("a"), file("b"))
    archive.write_bytes(archive.read_bytes()[:1024])
    with pytest.raises(DataError, match="truncated"):
        unpack(archive, tmp_path / "data")


@pytest.mark.parametrize("where", [8, 700, -6])
def test_a_damaged_archive_leaves_nothing(tmp_path, where):
    archive, folder = official(tmp_path / "x.tgz"), tmp_path / "data"
    whole = bytearray(archive.read_bytes())
    whole[where if where != 8 else 0] ^= 0xFF
    archive.write_bytes(whole)
    with pytest.raises(DataError, match="fetch it again"):
        unpack(archive, folder)
    assert os.listdir(folder) == []


def test_a_damaged_header_is_not_taken_for_the_end(tmp_path):
    archive = pack(tmp_path / "x.tar", file("a"), file("b"))
    whole = bytearray(archive.read_bytes())
    whole[1024 + 150] ^= 0x01  # in the checksum of the second header
    archive.write_bytes(whole)
    with pytest.raises(DataError, match="fetch it again"):
        unpack(archive, tmp_path / "data")


OUTSIDE = {
    "out of its folder": lambda _: [file("../outside")],
    "leads out": lambda _: [file("set/../../outside")],
    "absolute": lambda base: [file(f"{base}/outside")],
    "absolute path": lambda _: [file("C:outside")],
    "backslash": lambda _: [file("..\\outside")],
    "link to": lambda base: [special("set", tarfile.SYMTYPE, str(base)), file("set/outside")],
    "a link": lambda base: [special("set", tarfile.LNKTYPE, f"{base}/x.tgz"), file("set")],
    "device": lambda _: [special("set", tarfile.CHRTYPE)],
    "special file": lambda _: [special("set", tarfile.FIFOTYPE)],
    "there twice": lambda _: [file("set/a"), file("set/a")],
    "twice": lambda _: [file("set"), file("set/a")],
    "only in case": lambda _: [file("set/a"), file("Set/b")],
    "in case": lambda _: [file("stra\u00dfe"), file("STRASSE")],
    "differs from": lambda _: [file("caf\u00e9"), file("cafe\u0301")],
    "without a name": lambda _: [file("./")],
}


@pytest.mark.parametrize("reason", OUTSIDE)
def test_what_should_not_be_in_an_archive(tmp_path, reason):
    make: Callable[[Path], list[tuple[tarfile.TarInfo, bytes]]] = OUTSIDE[reason]
    archive, folder = pack(tmp_path / "x.tgz", file("good"), *make(tmp_path)), tmp_path / "data"
    before = contents(tmp_path)
    with pytest.raises(DataError, match=reason):
        unpack(archive, folder)
    assert contents(tmp_path) == before
    assert os.listdir(folder) == []


def test_a_link_that_was_there_is_not_written_through(tmp_path):
    archive, folder, elsewhere = official(tmp_path / "x.tgz"), tmp_path / "data", tmp_path / "elsewhere"
    elsewhere.mkdir()
    folder.mkdir()
    (folder / "set").symlink_to(elsewhere)
    unpack(archive, folder)
    assert list(elsewhere.iterdir()) == []


@pytest.mark.parametrize("name", ["x.tgz", "x.gz"])
def test_a_bomb_is_stopped(tmp_path, name):
    archive, folder = tmp_path / name, tmp_path / "data"
    if name == "x.tgz":
        pack(archive, file("a", bytes(600_000)), file("b", bytes(600_000)))
    else:
        archive.write_bytes(gzip.compress(bytes(30_000_000)))
    with pytest.raises(DataError, match="1000000 bytes"):
        unpack(archive, folder, limit=1_000_000)
    assert os.listdir(folder) == []


def test_a_header_that_claims_to_be_huge_is_not_read(tmp_path):
    header = tarfile.TarInfo("long")
    header.type, header.size = tarfile.GNUTYPE_LONGNAME, 1 << 30
    archive = tmp_path / "x.tgz"
    archive.write_bytes(gzip.compress(header.tobuf(tarfile.GNU_FORMAT) + bytes(1 << 20)))
    with pytest.raises(DataError, match="header of 1073741824 bytes"):
        unpack(archive, tmp_path / "data")


def test_owners_and_modes_are_not_taken_over(tmp_path):
    member, content = file("set/run", b"#!/bin/sh")
    member.mode, member.uid = 0o6777, 12345
    unpack(pack(tmp_path / "x.tgz", (member, content)), tmp_path)
    status = (tmp_path / "set/run").stat()
    assert not stat.S_IMODE(status.st_mode) & 0o6111
    assert status.st_uid == os.geteuid()


def test_what_a_killed_process_left_is_cleared(tmp_path):
    archive, folder = official(tmp_path / "x.tgz"), tmp_path / "data"
    (folder / ".x.tgz.unpacking/set").mkdir(parents=True)
    (folder / ".x.tgz.unpacking/half").touch()
    unpack(archive, folder)
    assert sorted(os.listdir(folder)) == ["readme", "set"]


def test_other_files_are_no_archives(tmp_path):
    (tmp_path / "x.zip").write_bytes(b"PK")
    with pytest.raises(DataError, match="fetch it again"):
        unpack(tmp_path / "x.zip", tmp_path / "data")
    with pytest.raises(DataError, match="fetch it first"):
        unpack(tmp_path / "y.tgz", tmp_path / "data")
