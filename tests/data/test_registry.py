"""The data folder: which one it is, and what is said about one that will not do."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from subprocesses import run_python
from wellposed.data import data_root, fetch, load, prepare, verify
from wellposed.errors import ArgumentError, DataError

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
def test_a_folder_below_that_may_not_be_looked_into(inner: str):
    name = "image" if inner.startswith("cifar") else "listops"
    with tempfile.TemporaryDirectory() as root:  # not pytest's, which nobody else can reach
        os.chmod(root, 0o777)
        (Path(root) / inner).mkdir(mode=0)
        run_python(f"""{AS_NOBODY}
nobody()
for call in (load, prepare):
    message = refused(call, {name!r}, {root!r})
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
    with pytest.raises(DataError, match=r"cannot .* /proc"):
        load("sinusoids", "/proc/self", **SMALL)


def test_a_folder_that_was_named_is_not_created(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for call in (load, prepare, verify, fetch):
        message = r"there is no folder .*/mistyped: create it first \(mkdir -p .*mistyped\), or leave root out"
        with pytest.raises(DataError, match=message):
            call("image", tmp_path / "mistyped")
    monkeypatch.setenv("WELLPOSED_DATA", str(tmp_path / "mis typed"))
    with pytest.raises(DataError, match=r"\(mkdir -p '.*mis typed'\), or unset WELLPOSED_DATA"):
        load("sinusoids", **SMALL)
    assert list(tmp_path.iterdir()) == []


def test_the_folder_that_is_taken_without_a_name_is_created(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("WELLPOSED_DATA", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert len(load("sinusoids", **SMALL)) == 4
    assert [path.name for path in (tmp_path / ".cache" / "wellposed" / "data").iterdir()] == ["prepared"]


def test_a_class_in_place_of_a_task():
    """Without the tests' run-time checks of types, as users have it."""
    run_python("""
from wellposed.data import ListOps, load, prepare
from wellposed.errors import ArgumentError

def refused(call, *arguments, **options):
    try:
        call(*arguments, **options)
    except ArgumentError as error:
        return str(error)
    raise AssertionError(call)

for call in (load, prepare):
    assert refused(call, ListOps) == "ListOps is a class: pass a task made of it, as in load(ListOps())"
    assert refused(call, ListOps, seed=1).endswith("as in load(ListOps(seed=...))")
    assert refused(call, ["listops"]) == "a task is a name, such as 'listops', or a Task, not ['listops']"
""")
