"""The code on a page of Markdown, and what stands below it as its output."""

from __future__ import annotations

import itertools
import re
from typing import NamedTuple

FENCE = re.compile(r"^```(?P<language>\w*)[^\n]*\n(?P<body>.*?)^```\s*$", re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    """One ```python block, and the ```text block right after it, if that is the next one."""

    line: int
    code: str
    output: str | None


def blocks(text: str) -> list[Block]:
    """The runnable blocks of a page. Formulas and diagrams stand in fences without a language, so they never match."""
    fences = list(FENCE.finditer(text))
    found = []
    for fence, after in itertools.zip_longest(fences, fences[1:]):
        if fence["language"] == "python":
            output = after["body"] if after and after["language"] == "text" else None
            found.append(Block(text[: fence.start()].count("\n") + 2, fence["body"], output))
    return found
