"""One HTML page that needs nothing but itself."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Any

from wellposed import __version__
from wellposed._files import write_whole
from wellposed.errors import MissingExtraError, RecordError
from wellposed.records import Record
from wellposed.report._figures import figure_svg
from wellposed.report._maths import set_maths
from wellposed.report._opening import opening
from wellposed.report._verdicts import overall, tally, verdicts


def write_page(records: list[Record], path: Path) -> Path:
    """Draw every record and write the page, whole or not at all; it links to an ``explorer.html`` beside it."""
    sections = [
        {
            "record": record,
            "figure": _figure(record),
            "verdicts": verdicts(record),
            "overall": overall(record),
            "differing": tally([record])["differs"],
        }
        for record in records
    ]
    page = render(
        "page.html.jinja",
        sections=sections,
        opening=opening(records),
        tally=tally(records),
        forms=_forms(records),
        explorer=(path.parent / "explorer.html").exists(),
    )
    return write_whole(path, page)


def render(template: str, **values: Any) -> str:
    """A page of this folder's templates, with the style they share."""
    try:
        from jinja2 import Environment, StrictUndefined
    except ImportError:
        raise MissingExtraError("jinja2", "report") from None
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters["maths"] = set_maths  # escapes what it is given
    parts = (template, "page.css", "page.js")
    text, style, script = (files("wellposed.report").joinpath(name).read_text("utf-8") for name in parts)
    return environment.from_string(text).render(style=style, script=script, version=__version__, **values)


def _forms(records: list[Record]) -> dict[str, str]:
    """What tells two records of the same title apart: trained models, or their small stand-in."""
    names = {record.experiment for record in records}
    full = {name: "trained models" for name in names if name.endswith("-full")}
    return full | {name.removesuffix("-full"): "small stand-in" for name in full if name.removesuffix("-full") in names}


def _figure(record: Record) -> str:
    try:
        return figure_svg(record.experiment, record.data)
    except (KeyError, ValueError, TypeError, IndexError, StopIteration) as error:
        raise RecordError(
            f"the data of record {record.experiment!r} is damaged ({type(error).__name__}: {error}): "
            f"run 'wellposed reproduce {record.experiment}' again"
        ) from None
