"""Draws the pictures of docs/howto/plots.md with the code that stands above each: python docs/_plots.py."""

from __future__ import annotations

import re
from pathlib import Path

import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt

PAGE = Path(__file__).parent / "howto" / "plots.md"
_PART = re.compile(r"^```python\n(?P<code>.*?)^```|^!\[[^\]]*\]\((?P<picture>[^)]+)\)", re.MULTILINE | re.DOTALL)


def main() -> None:
    """Runs the page from top to bottom; a picture shows the axes of the block before it."""
    plt.rcParams.update({"svg.hashsalt": "wellposed", "figure.figsize": (6.4, 3.8), "legend.frameon": False})
    names: dict[str, object] = {}
    for part in _PART.finditer(PAGE.read_text(encoding="utf-8")):
        if part["code"]:
            exec(part["code"], names)
        else:
            plt.savefig((PAGE.parent / part["picture"]).resolve(), metadata={"Date": None}, facecolor="white")
            plt.close("all")


if __name__ == "__main__":
    main()
