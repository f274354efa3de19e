"""The documentation runs, prints what it says it prints, and builds without a warning."""

from __future__ import annotations

import contextlib
import doctest
import importlib
import io
import itertools
import os
import pkgutil
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

import wellposed

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
LONG = {
    "docs/data/index.md",
    "docs/tutorials/layers.md",
    "docs/tutorials/own-data.md",
    "docs/tutorials/spikes.md",
    "docs/howto/own-initialisation.md",
    "docs/howto/compile-export.md",
    "docs/howto/several-gpus.md",
    "docs/devdocs/spikes.md",
    "docs/devdocs/rank-one.md",
    "docs/howto/run-summary.md",
    "docs/howto/sweeps.md",
}
"""Pages that train for long, optimise, export or start processes."""
MODULES = ["wellposed", *(m.name for m in pkgutil.walk_packages(wellposed.__path__, "wellposed."))]

_FENCE = re.compile(r"^```(?P<language>\w*)[^\n]*\n(?P<body>.*?)^```\s*$", re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    """One ```python block, and the ```text block right after it, if that is the next one."""

    line: int
    code: str
    output: str | None


def blocks(text: str) -> list[Block]:
    """The runnable blocks of a page. Formulas and diagrams stand in fences without a language, so they never match."""
    fences = list(_FENCE.finditer(text))
    found = []
    for fence, after in itertools.zip_longest(fences, fences[1:]):
        if fence["language"] == "python":
            output = after["body"] if after and after["language"] == "text" else None
            found.append(Block(text[: fence.start()].count("\n") + 2, fence["body"], output))
    return found


def run(block: Block, page: Path, namespace: dict[str, object]) -> str:
    """What the block prints. Blank lines before the code make the line numbers of a traceback those of the page."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        # without the future imports of this file, as the reader of the page would run it
        exec(compile("\n" * (block.line - 1) + block.code, str(page), "exec", dont_inherit=True), namespace)
    return printed.getvalue()


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.mark.parametrize(
    "page", [pytest.param(p, id=name_of(p), marks=pytest.mark.slow if name_of(p) in LONG else ()) for p in PAGES]
)
def test_code_on_the_page_prints_what_stands_below_it(page: Path):
    namespace: dict[str, object] = {"__name__": page.stem}
    for block in blocks(page.read_text(encoding="utf-8")):
        printed = run(block, page, namespace)
        if block.output is not None:
            assert printed == block.output, f"{page.name}, line {block.line}"


def test_every_text_block_of_a_tutorial_is_checked():
    for page in sorted((ROOT / "docs" / "tutorials").glob("*.md")):
        text = page.read_text(encoding="utf-8")
        shown = sum(fence["language"] == "text" for fence in _FENCE.finditer(text))
        assert shown == sum(block.output is not None for block in blocks(text)), page.name


def test_blocks_pair_code_with_the_output_right_below_it():
    page = "```python\na\n```\n\nwords\n\n```text\n1\n```\n\n```\nx = y\n```\n\n```python\nb\n```\n\n```bash\nls\n```\n"
    assert blocks(page) == [Block(2, "a\n", "1\n"), Block(16, "b\n", None)]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The built site and what the build said."""
    out = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "-d", str(out)],
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},  # a notice about the next major version, not about this site
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return out, done.stdout + done.stderr


@pytest.mark.slow
def test_site_builds_without_a_warning(site: tuple[Path, str]):
    assert "WARNING" not in site[1], site[1]


@pytest.mark.slow
def test_site_loads_nothing_from_the_network(site: tuple[Path, str]):
    sources = r"""<(?:script|img|iframe|source)\b[^>]*\bsrc=["']?(?:https?:)?//"""
    links = r"""<link\b(?![^>]*\brel=["']?canonical)[^>]*\bhref=["']?(?:https?:)?//"""
    loads = re.compile(f"{sources}|{links}")
    pages = list(site[0].rglob("*.html"))
    assert pages
    for page in pages:
        assert not loads.search(page.read_text(encoding="utf-8")), page.relative_to(site[0])


@pytest.mark.parametrize("module", MODULES)
def test_doctests(module: str):
    failed, _ = doctest.testmod(importlib.import_module(module))
    assert failed == 0
