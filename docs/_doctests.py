"""Lets the API pages show doctests as code: wraps every ``>>>`` paragraph of a docstring in a fence."""

from __future__ import annotations

import re
from typing import Any

from griffe import Extension, Object

_DOCTEST = re.compile(r"^>>> .*?(?=\n\s*\n|\Z)", re.MULTILINE | re.DOTALL)


class Doctests(Extension):
    """Without this, Markdown reads ``>>>`` as a quotation and ``[[...]]`` in the output as a link."""

    def on_instance(self, *, obj: Object, **kwargs: Any) -> None:
        """Called for every object that has been read."""
        if obj.docstring:
            obj.docstring.value = _DOCTEST.sub(lambda m: f"```pycon\n{m[0]}\n```", obj.docstring.value)
