"""What is published: built, installed into an empty environment, and used there as the README says."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from email.parser import HeaderParser
from pathlib import Path

import pytest

import wellposed
from page_blocks import blocks

ROOT = Path(__file__).parents[1]
RUN = """
import contextlib, io, json, sys
names = {"__name__": "readme"}
for code, expected in json.load(sys.stdin):
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(code, names)
    assert expected is None or printed.getvalue() == expected, printed.getvalue()
import wellposed
print(wellposed.__version__, wellposed.__file__)
"""
"""Runs blocks of a page one after the other and compares what they print."""


def test_the_version_is_the_same_everywhere():
    version = wellposed.__version__
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.findall(r"^## \[(.*?)\]", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)[0] == version
    assert f"## What is in version {version}\n" in (ROOT / "docs" / "index.md").read_text(encoding="utf-8")


def call(*command: object, cwd: Path, text: str | None = None) -> str:
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, input=text, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def environment(folder: Path, *packages: str) -> Path:
    """An empty environment with these packages; its Python."""
    call(sys.executable, "-m", "venv", folder, cwd=folder.parent)
    python = folder / "bin" / "python"
    call(python, "-m", "pip", "install", "--quiet", *packages, cwd=folder.parent)
    return python


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The wheel and the source distribution."""
    folder = tmp_path_factory.mktemp("built")
    python = environment(folder / "builder", "hatchling>=1.26")
    call(python, "-m", "hatchling", "build", "-d", folder / "dist", cwd=ROOT)
    wheel, source = (next((folder / "dist").glob(pattern)) for pattern in ("*.whl", "*.tar.gz"))
    with tarfile.open(source) as archive:
        archive.extractall(folder / "unpacked", filter="data")
    (unpacked,) = (folder / "unpacked").iterdir()
    call(python, "-m", "hatchling", "build", "-t", "wheel", "-d", folder / "again", cwd=unpacked)
    assert names(wheel) == names(next((folder / "again").glob("*.whl")))
    return wheel, source


def names(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


@pytest.mark.slow
def test_the_wheel_has_every_file_and_what_an_index_shows(built: tuple[Path, Path]):
    inside = names(built[0])
    package = ROOT / "src" / "wellposed"
    files = subprocess.run(
        ["git", "ls-files", str(package)], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout
    assert {path.removeprefix("src/") for path in files.split()} <= inside
    assert not [name for name in inside if "__pycache__" in name or name.startswith("tests")]
    with zipfile.ZipFile(built[0]) as archive:
        (about,) = (name for name in inside if name.endswith(".dist-info/METADATA"))
        metadata = HeaderParser().parsestr(archive.read(about).decode())
    assert metadata["Version"] == wellposed.__version__
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Requires-Python"] == ">=3.11"
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert len(metadata.get_all("License-File") or []) >= 4  # ours, and those of what is vendored
    assert len(metadata.get_all("Classifier") or []) >= 8
    assert metadata["Project-URL"]
    assert metadata["Summary"]
    assert metadata["Keywords"]


@pytest.mark.slow
def test_the_source_distribution_can_be_tested(built: tuple[Path, Path]):
    with tarfile.open(built[1]) as archive:
        inside = {name.partition("/")[2] for name in archive.getnames()}
    needed = {
        "Makefile",
        "constraints.txt",
        "mkdocs.yml",
        "pyproject.toml",
        "tests/conftest.py",
        "docs/index.md",
        "LICENSE",
    }
    assert needed <= inside
    assert {f"results/{path.name}" for path in (ROOT / "results").glob("*.json")} <= inside


@pytest.mark.slow
def test_the_readme_runs_in_an_empty_environment(built: tuple[Path, Path], tmp_path: Path):
    """First with the core alone, then with the extras that its later sections name."""
    readme = blocks((ROOT / "README.md").read_text(encoding="utf-8"))
    assert len(readme) >= 3
    examples = [(block.code, block.output) for block in readme]
    python = environment(tmp_path / "env", "--constraint", str(ROOT / "constraints.txt"), str(built[0]))
    said = call(python, "-I", "-c", RUN, cwd=tmp_path, text=json.dumps(examples[:2]))
    assert said.split()[0] == wellposed.__version__
    assert str(tmp_path) in said.split()[1]
    extras = f"{built[0]}[cli,data,plots,report,train]"
    call(python, "-m", "pip", "install", "--quiet", "--constraint", ROOT / "constraints.txt", extras, cwd=tmp_path)
    call(python, "-I", "-c", RUN, cwd=tmp_path, text=json.dumps(examples))
    command = python.with_name("wellposed")
    call(command, "train", "tiny-scifar-s4ptd", cwd=tmp_path)
    assert (tmp_path / "runs" / "tiny-scifar-s4ptd" / "summary.html").exists()
    assert "kappa" in call(command, "diagonalize", "legs:64", "--rel", "0.1", cwd=tmp_path)
    call(command, "analyze", "legs", "--n", "32", cwd=tmp_path)
    assert "listops" in call(command, "data", "list", cwd=tmp_path)
    call(command, "explore", "grcar:8", "--out", "explorer.html", cwd=tmp_path)
    call(command, "reproduce", "impulse-divergence", "--out", "report", cwd=tmp_path)
    assert (tmp_path / "report" / "index.html").stat().st_size > 10_000
    shutil.rmtree(tmp_path / "env")  # a gigabyte
