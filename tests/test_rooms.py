"""The rooms of the house import those before them and no others: at the top, in a function, or for a type alone.

``MAY_IMPORT`` is the table; an exception needs a section of docs/devdocs/decisions.md that says why.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

import wellposed

SOURCE = Path(wellposed.__file__).parent
DECISIONS = Path(__file__).parents[1] / "docs" / "devdocs" / "decisions.md"

BELOW_NN = {"linalg", "hippo", "systems", "kernels"}
BELOW_TRAIN = BELOW_NN | {"nn", "data", "records"}
MAY_IMPORT: dict[str, set[str]] = {
    "linalg": set(),
    "hippo": {"linalg"},
    "kernels": set(),
    "systems": {"linalg", "hippo"},
    "nn": {"systems", "hippo", "linalg", "kernels"},
    "data": set(),
    "records": set(),
    "train": {"nn", "data", "records"},
    "presets": {"train"},
    "experiments": BELOW_TRAIN | {"train", "presets"},
    "plot": {"linalg", "systems", "nn"},
    "report": {"records", "plot"},
    "explorer": {"linalg", "hippo", "systems", "records", "experiments"},
    "cli": BELOW_TRAIN | {"train", "presets", "experiments", "report", "explorer", "plot"},
    # no rooms, but files
    "__init__": {"linalg", "hippo", "systems", "nn"},
    "__main__": {"cli"},
    "errors": set(),
    "_checks": set(),
    "_files": set(),
    "_locks": set(),
}
"""Which rooms each room may know. Some are still to come."""
EVERYONES = {"errors", "_checks", "_files", "_locks", "__version__"}

CORE = {"torch", "numpy", "scipy", "safetensors"}
EXTRAS = {"tyro", "rich", "matplotlib", "jinja2", "control", "numba", "PIL", "triton", "lightning_fabric"}
AT_THE_TOP: dict[str, set[str]] = {
    "linalg": {"torch", "numpy", "scipy"},
    "hippo": {"torch", "numpy", "scipy"},
    "kernels": {"torch"},
    "data": {"torch", "numpy"},
    "cli": CORE | {"tyro", "rich"},
}
"""Packages a room imports as soon as it is imported itself; the core ones for a room that is not listed."""
WHEN_USED: dict[str, set[str]] = {"linalg": set(), "hippo": set(), "kernels": {"triton"}}
"""Packages it imports besides in the function that needs them; core and extras for a room that is not listed."""

EXCEPTIONS: dict[tuple[str, str], str] = {
    ("linalg", "safetensors"): "A light import",  # of the core: a diagonalisation can be saved
    ("systems", "kernels"): "Systems simulate with the kernels",
    ("data", "numba"): "Generators are compiled",  # at the top of files that are imported when something is generated
    ("kernels", "triton"): "Kernels in Triton",  # in one folder, which is imported when a tensor on a GPU asks for it
    ("data", "nn"): "Noise stands with the models",
    ("presets", "nn"): "Presets count parameters by building a block",
    ("train", "systems"): "A run ends with a page about itself",  # to certify responses
    ("train", "report"): "A run ends with a page about itself",  # to draw them, in the function that does
    ("train", "presets"): "`python -m wellposed.train` knows the presets",  # in the command alone
}
"""From what to what, and the section of the decisions that says why."""


class Import(NamedTuple):
    """One import of a module, wherever it stands in a file."""

    module: str
    line: int
    when_used: bool
    """In a function, or for types alone."""


def imports(text: str, package: str) -> list[Import]:
    """All that a file of ``package`` imports; of ``from wellposed import x`` the module ``wellposed.x``."""
    return list(_walk(ast.parse(text), package, when_used=False))


def _walk(node: ast.AST, package: str, when_used: bool) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        for module in _modules(child, package):
            yield Import(module, getattr(child, "lineno", 0), when_used)
        later = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) or (
            isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test)
        )
        yield from _walk(child, package, when_used or later)


def _modules(node: ast.AST, package: str) -> list[str]:
    if isinstance(node, ast.Import):
        return [name.name for name in node.names]
    if isinstance(node, ast.ImportFrom):
        above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
        base = ".".join([*above, *filter(None, [node.module])])
        return [f"{base}.{name.name}" for name in node.names] if base == "wellposed" else [base]
    if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in ("import_module", "__import__"):
        # what is known of a name that is put together at run time: how it begins
        return [found[1] for found in [re.match(r"f?['\"]([\w.]+)", ast.unparse(node.args[0]))] if found]
    return []


def room_of(path: Path) -> str:
    """The first part of its way: a package, or the name of a file."""
    return path.relative_to(SOURCE).with_suffix("").parts[0]


@cache
def found() -> dict[tuple[str, str], list[str]]:
    """Every way from a room to another or to a package that the table does not allow, and where it is taken."""
    ways: dict[tuple[str, str], list[str]] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        room = room_of(path)
        package = ".".join(["wellposed", *path.relative_to(SOURCE).parts[:-1]])
        for module, line, when_used in imports(path.read_text(encoding="utf-8"), package):
            target = refused(room, module, when_used)
            if target is not None:
                ways.setdefault((room, target), []).append(f"{path.relative_to(SOURCE)}:{line} imports {module}")
    return ways


def refused(room: str, module: str, when_used: bool) -> str | None:
    """The room or package that ``module`` belongs to, where ``room`` may not import it."""
    first, _, rest = module.partition(".")
    if first == "wellposed":
        target = rest.partition(".")[0]
        # "import wellposed" alone brings everything below nn: only what stands above may
        allowed = MAY_IMPORT[room] | EVERYONES | {room} if target else set()
        return None if target in allowed else target or "wellposed"
    if first in sys.stdlib_module_names or first == "jaxtyping":
        return None
    allowed = AT_THE_TOP.get(room, CORE)
    if when_used:
        allowed = allowed | WHEN_USED.get(room, CORE | EXTRAS)
    return None if first in allowed else first


@pytest.mark.parametrize("room", sorted(MAY_IMPORT))
def test_rooms_import_what_the_table_allows(room: str):
    wrong = {way: where for way, where in found().items() if way[0] == room and way not in EXCEPTIONS}
    assert wrong == {}


def test_every_file_is_in_a_room_of_the_table():
    assert {room_of(path) for path in SOURCE.rglob("*.py")} <= MAY_IMPORT.keys()


def test_every_exception_is_written_down_and_needed():
    headings = set(re.findall(r"^## (.+)$", DECISIONS.read_text(encoding="utf-8"), re.MULTILINE))
    assert set(EXCEPTIONS.values()) <= headings
    there = {room_of(path) for path in SOURCE.rglob("*.py")}
    to_come = {way for way in EXCEPTIONS if way[1] in MAY_IMPORT and not there.issuperset(way)}
    assert EXCEPTIONS.keys() - to_come <= found().keys()


def test_imports_are_seen_wherever_they_stand():
    text = """
import torch, wellposed.nn as nn
from wellposed import __version__, data
from ..linalg import ptd
from . import _rows
if TYPE_CHECKING:
    from wellposed.cli import main
def f():
    try:
        from wellposed.report._style import S4
    except ImportError:
        import numba
    return importlib.import_module(f"wellposed.experiments.{name}")
"""
    seen = {(one.module, one.when_used) for one in imports(text, "wellposed.systems")}
    assert seen == {
        ("torch", False),
        ("wellposed.nn", False),
        ("wellposed.__version__", False),
        ("wellposed.data", False),
        ("wellposed.linalg", False),
        ("wellposed.systems", False),
        ("wellposed.cli", True),
        ("wellposed.report._style", True),
        ("numba", True),
        ("wellposed.experiments.", True),
    }


@pytest.mark.parametrize(
    ("room", "module", "when_used", "target"),
    [
        ("systems", "wellposed.linalg._eigen", False, None),
        ("systems", "wellposed.nn._layer", True, "nn"),
        ("report", "wellposed.experiments.", True, "experiments"),
        ("nn", "wellposed.kernels.dispatch", False, None),
        ("kernels", "wellposed.nn", False, "nn"),
        ("kernels", "numpy", True, "numpy"),
        ("kernels", "triton.language", True, None),
        ("kernels", "triton", False, "triton"),
        ("linalg", "matplotlib.pyplot", True, "matplotlib"),
        ("report", "matplotlib.pyplot", True, None),
        ("report", "matplotlib", False, "matplotlib"),
        ("data", "pandas", True, "pandas"),
        ("train", "wellposed.systems", False, "systems"),
        ("systems", "wellposed", False, "wellposed"),
    ],
)
def test_the_table_means_what_it_says(room: str, module: str, when_used: bool, target: str | None):
    assert refused(room, module, when_used) == target
