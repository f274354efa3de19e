"""Lets the API pages link to the derivations that docstrings name by their files."""

from __future__ import annotations

import re
from typing import Any

from griffe import Extension, Object

_PAGE = re.compile(r"\bdocs/(?P<page>[\w/-]+)\.md(?P<part>#[\w-]+)?")


class Links(Extension):
    """Without this, ``docs/devdocs/bound.md`` would be a name to look for in the repository."""

    def on_instance(self, *, obj: Object, **kwargs: Any) -> None:
        """Called for every object that has been read. Pages of the API lie in a folder beside the derivations."""
        if obj.docstring:
            obj.docstring.value = _PAGE.sub(r"[\g<0>](../\g<page>.md\g<part>)", obj.docstring.value)
