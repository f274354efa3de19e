"""Draws the pictures of tutorials with the code that stands above each: python docs/_plots.py [PAGE ...]."""

from __future__ import annotations

import contextlib
import io
import re
import sys
from pathlib import Path

from wellposed.report._style import WIDTH, pyplot, standalone, to_svg

DOCS = Path(__file__).parent
PAGES = (DOCS / "howto" / "plots.md", *sorted((DOCS / "tutorials").glob("*.md")))
_PART = re.compile(r"^```python\n(?P<code>.*?)^```|^!\[[^\]]*\]\((?P<picture>[^)]+)\)", re.MULTILINE | re.DOTALL)


def draw(page: Path, out: Path | None = None) -> list[Path]:
    """Run a page from top to bottom; a picture shows what the block before it drew. Into ``out``, or in place."""
    plt = pyplot()
    plt.rcParams.update({"figure.figsize": (1.4 * WIDTH, 3.5), "legend.fontsize": 9.5})
    names: dict[str, object] = {"__name__": page.stem}
    drawn = []
    for part in _PART.finditer(page.read_text(encoding="utf-8")):
        if part["code"]:
            with contextlib.redirect_stdout(io.StringIO()):
                exec(compile(part["code"], str(page), "exec", dont_inherit=True), names)
        elif plt.get_fignums():
            belongs = (page.parent / part["picture"]).resolve()
            path = out / belongs.name if out else belongs
            svg = standalone(to_svg(plt.gcf(), path.stem))
            path.write_text(svg, encoding="utf-8")
            plt.close("all")
            drawn.append(path)
    return drawn


def main(pages: list[str]) -> None:
    """All pages, or those named."""
    for page in map(Path, pages) if pages else PAGES:
        for path in draw(page):
            sys.stdout.write(f"picture: {path}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
