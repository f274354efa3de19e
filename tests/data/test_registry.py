"""The data folder: which one it is, and what is said about one that will not do."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from subprocesses import run_python
from wellposed.data import data_root, load, prepare, verify
from wellposed.errors import ArgumentError, DataError, WellposedError

SMALL = {"count": 4, "steps": 10, "grid": (2, 2)}

AS_NOBODY = """
import os, sys
from wellposed.data import data_root, fetch, load, prepare, verify
from wellposed.errors import ArgumentError, DataError

def nobody():
    "Somebody without rights, without a home, and in no list of users."
    os.environ.pop("HOME", None)
    os.environ.pop("WELLPOSED_DATA", None)
    if os.geteuid() == 0:
        os.setgid(54321)
        os.setuid(54321)

def refused(call, *arguments, **options):
    try:
        call(*arguments, **options)
    except (ArgumentError, DataError) as error:
        return str(error)
    raise AssertionError(call)
"""


def test_a_folder_that_may_not_be_looked_into(tmp_path: Path):
    folder = tmp_path / "closed"
    folder.mkdir(mode=0)
    run_python(f"""{AS_NOBODY}
nobody()
for name in ("sinusoids", "listops", "image"):
    for call in (load, prepare, verify):
        message = refused(call, name, {str(folder)!r})
        assert "closed: Permission denied; give yourself access to it, or give another root" in message, message
assert "Permission denied" in refused(fetch, "image", {str(folder)!r})
""")


@pytest.mark.parametrize("inner", ["prepared", "cifar-10-batches-py", "listops-1000"])
def test_a_folder_below_that_may_not_be_looked_into(tmp_path: Path, inner: str):
    for parent in [tmp_path, *tmp_path.parents[:2]]:
        parent.chmod(0o777)
    (tmp_path / inner).mkdir(mode=0)
    name = "image" if inner.startswith("cifar") else "listops"
    run_python(f"""{AS_NOBODY}
nobody()
for call in (load, prepare):
    message = refused(call, {name!r}, {str(tmp_path)!r})
    assert {inner!r} in message and "Permission denied" in message, message
""")


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="only root can become a user that nobody knows")
def test_without_a_home_folder():
    run_python(f"""{AS_NOBODY}
nobody()
for call in (data_root, lambda: load("sinusoids")):
    message = refused(call)
    assert "the home folder cannot be found" in message and "name the data folder, as root or in $W" in message, message
""")


def test_a_home_folder_of_nobody():
    with pytest.raises(ArgumentError, match=r"~no-such-user/data cannot be found .*: name the data folder"):
        data_root("~no-such-user/data")


def test_a_root_that_is_a_file_or_below_one(tmp_path: Path):
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "file", tmp_path / "file" / "data"):
        for call in (load, prepare, verify):
            with pytest.raises(DataError, match=r"file(/data)? is not a folder: give one as root"):
                call("sinusoids", place)


def test_a_root_whose_name_is_too_long_or_where_nothing_can_be_made(tmp_path: Path):
    with pytest.raises(DataError, match="File name too long"):
        load("sinusoids", tmp_path / ("x" * 300), **SMALL)
    with pytest.raises(WellposedError, match="/proc"):
        load("sinusoids", "/proc/wellposed", **SMALL)
