"""The site: built without a warning by two builders, without a dead link, at home in a folder without a network."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

import pytest

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

ROOT = Path(__file__).parents[2]
AXE = ROOT / "tests" / "explorer" / "vendor" / "axe.min.js"
pytestmark = pytest.mark.slow


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


def test_site_builds_without_a_warning(site: tuple[Path, str]):
    assert "WARNING" not in site[1], site[1]


def test_site_loads_nothing_from_the_network(site: tuple[Path, str]):
    sources = r"""<(?:script|img|iframe|source)\b[^>]*\bsrc=["']?(?:https?:)?//"""
    links = r"""<link\b(?![^>]*\brel=["']?canonical)[^>]*\bhref=["']?(?:https?:)?//"""
    loads = re.compile(f"{sources}|{links}")
    pages = list(site[0].rglob("*.html"))
    assert pages
    for page in pages:
        assert not loads.search(page.read_text(encoding="utf-8")), page.relative_to(site[0])


def test_items_of_a_list_are_no_running_text(site: tuple[Path, str]):
    """Behind a paragraph or code inside of an item, Markdown wants an empty line before the next item."""
    swallowed = re.compile(r"<p>(?:(?!</p>).)*?\n(?:-|\d+\.) ", re.DOTALL)
    pages = {page.name: page.read_text(encoding="utf-8") for page in site[0].rglob("*.html")}
    assert [name for name, text in pages.items() if swallowed.search(text)] == []


class Anchors(HTMLParser):
    """What a page links to or loads, and the ids it has."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.targets: list[str] = []
        self.ids: set[str] = {""}
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("href", "src") and value:
                self.targets.append(value)
            elif name in ("id", "name") and value:
                self.ids.add(value)


def test_no_link_is_dead(site: tuple[Path, str]):
    """mkdocs looks at links between its pages alone: this also follows those to files, and those it writes itself."""
    read = {page: Anchors(page) for page in site[0].rglob("*.html") if page.name != "404.html"}
    dead = []
    for page, found in read.items():
        for target in found.targets:
            parts = urlsplit(target)
            if parts.scheme or parts.netloc:
                continue
            path = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            path = path / "index.html" if path.is_dir() else path
            ids = read[path].ids if path in read else {unquote(parts.fragment)}
            if not path.exists() or unquote(parts.fragment) not in ids:
                dead.append(f"{page.relative_to(site[0])}: {target}")
    assert len(read) > 50
    assert dead == []


def test_zensical_builds_the_same_pages(site: tuple[Path, str], tmp_path: Path):
    if not importlib.util.find_spec("zensical"):
        pytest.skip("zensical is not installed (pip install zensical)")
    for name in ("docs", "src"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "mkdocs.yml", tmp_path)
    command = [sys.executable, "-m", "zensical", "build", "--strict", "-f", "mkdocs.yml"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr

    def pages(folder: Path) -> set[str]:
        return {path.relative_to(folder).as_posix() for path in folder.rglob("*.html")}

    assert pages(tmp_path / "site") == pages(site[0])


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chrome]:
    from browsers import start

    driver = start(tmp_path_factory.mktemp("profile"))
    yield driver
    driver.quit()


def test_no_line_of_code_and_no_table_is_cut_off(site: tuple[Path, str], browser: Chrome):
    from browsers import show

    show(browser, 1366, "light")
    script = """
        return [...document.querySelectorAll('pre > code, .md-typeset__scrollwrap')]
            .filter(e => e.scrollWidth > e.clientWidth + 1).map(e => e.textContent.slice(0, 80))"""
    cut = {}
    for page in sorted(site[0].rglob("*.html")):
        if page.name != "404.html" and page.parent.name != "assets":
            browser.get(page.as_uri())
            cut |= {page.name: found} if (found := browser.execute_script(script)) else {}
    assert cut == {}


def open_page(browser: Chrome, page: Path, width: int, scheme: str) -> None:
    """As one sees it who comes for the first time: the theme keeps the colours it was seen in before."""
    from browsers import show

    show(browser, width, scheme)
    browser.get(page.as_uri())
    browser.execute_script("localStorage.clear()")
    browser.refresh()
    shown = browser.execute_script("return document.body.dataset.mdColorScheme")
    assert shown == {"light": "default", "dark": "slate"}[scheme]


@pytest.mark.parametrize("width", [360, 1366])
@pytest.mark.parametrize("name", ["index", "gallery", "tutorials/when-eig-lies"])
def test_pages_fit(site: tuple[Path, str], browser: Chrome, name: str, width: int):
    open_page(browser, site[0] / f"{name}.html", width, "dark")
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    assert browser.execute_script("return [...document.images].every(i => i.loading == 'lazy' || i.naturalWidth > 0)")
    assert browser.get_log("browser") == []


SCANNED = ("index", "gallery", "cli", "howto/run-summary", "tutorials/when-eig-lies", "data/smnist", "api/errors")
"""Every kind of page: pictures, code, tables, links in lists, signatures."""


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", SCANNED)
def test_an_accessibility_scan_finds_nothing_serious(site: tuple[Path, str], browser: Chrome, name: str, scheme: str):
    open_page(browser, site[0] / f"{name}.html", 360, scheme)  # on a phone, where code has to be scrolled besides
    browser.execute_script(AXE.read_text("utf-8"))
    found = browser.execute_async_script("axe.run({preload: false}).then(arguments[0])")["violations"]
    grave = [one for one in found if one["impact"] in ("serious", "critical")]
    assert [(one["id"], [node["html"] for node in one["nodes"]][:3]) for one in grave] == []


def test_search_works_from_a_folder_without_a_network(site: tuple[Path, str], browser: Chrome):
    from selenium.webdriver.support.ui import WebDriverWait

    from browsers import show

    show(browser, 1366, "light")
    browser.get((site[0] / "index.html").as_uri())
    browser.find_element("css selector", "body").send_keys("/")
    WebDriverWait(browser, 10).until(lambda b: b.switch_to.active_element.tag_name == "input")
    browser.switch_to.active_element.send_keys("pseudospectrum")
    found = "return [...document.querySelectorAll('.md-search-result__link')].map(a => a.href)"
    links = WebDriverWait(browser, 30).until(lambda b: b.execute_script(found))
    assert any("plot.html" in link for link in links)
