"""The page: scripts, styles and numbers put together into one file."""

from __future__ import annotations

import json
import re
from importlib.resources import files
from pathlib import Path
from typing import Any

from wellposed import __version__
from wellposed._files import write_whole
from wellposed.errors import MissingExtraError
from wellposed.explorer._records import tradeoff, trained
from wellposed.explorer._subject import Subject

_WORKER = ("arrays", "legs", "triangular", "sigma", "worker")
_PAGE = (
    *("arrays", "legs", "triangular", "modes", "sigma", "model", "settings", "words"),
    *("theme", "chart", "plane", "response", "pseudospectrum", "ring", "tradeoff", "trained", "main"),
)
"""Modules in an order in which each comes after those it imports."""
VENDOR = ("uPlot.iife.min.js", "d3-array.min.js", "d3-contour.min.js")


def write_explorer(subject: Subject, path: Path, *, records: Path | None = None) -> Path:
    """Write the page about ``subject``, whole or not at all; ``records`` is a folder of results to show beside it."""
    try:
        from jinja2 import Environment, StrictUndefined
    except ImportError:
        raise MissingExtraError("jinja2", "report") from None
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    data = {
        "title": subject.title,
        "sizes": subject.sizes,
        "duration": subject.duration,
        "tradeoff": tradeoff(records) if subject.sizes[0]["kind"] == "legs" else {},
        "trained": trained(records),
        "worker": bundle(_WORKER),
    }
    parts: dict[str, Any] = {
        "title": subject.title,
        "version": __version__,
        "legs": subject.sizes[0]["kind"] == "legs",
        "trained": data["trained"],
        "style": _read("vendor/uPlot.min.css") + _read("page.css"),
        "vendor": [_read(f"vendor/{name}") for name in VENDOR],
        "script": bundle(_PAGE),
        "data": _inline_json(data),
    }
    return write_whole(path, environment.from_string(_read("page.html.jinja")).render(parts))


def bundle(names: tuple[str, ...]) -> str:
    """Modules as one script: files opened by a double click cannot import each other, so imports and exports go.

    All their names then share one scope; a test keeps them apart.
    """
    text = "\n".join(_read(f"js/{name}.js") for name in names)
    text = re.sub(r"^import\b[^;]*;\n", "", text, flags=re.MULTILINE)
    text = re.sub(r"^export (?=(async )?(function|const|class)\b)", "", text, flags=re.MULTILINE)
    return f'(() => {{\n"use strict";\n{text}}})();\n'


def _inline_json(data: Any) -> str:
    """JSON that may stand in a script element: nothing in it can close the element."""
    return json.dumps(data, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


def _read(name: str) -> str:
    return files("wellposed.explorer").joinpath(name).read_text("utf-8")
