"""How figures look: narrow enough for a phone, without a background, in colours that read on light and dark."""

from __future__ import annotations

import io
import re
from typing import Any

from wellposed.errors import MissingExtraError
from wellposed.plot._style import S4, S4D, SHADES, THIRD

__all__ = ["S4", "S4D", "SHADES", "THIRD", "WIDTH", "pyplot", "standalone", "to_svg"]

WIDTH = 4.7  # inches: about the width of a phone at 72 points to the inch, so that text keeps its size there

# Stand-ins that become the page's own text and grid colours.
_INK, _FAINT = "#010203", "#040506"


def pyplot(ink: str = _INK, faint: str = _FAINT) -> Any:
    """matplotlib's pyplot, set up for figures without a screen."""
    try:
        import matplotlib
    except ImportError:
        raise MissingExtraError("matplotlib", "report") from None
    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    plt.rcParams.update(
        {
            "svg.fonttype": "none",
            "svg.hashsalt": "wellposed",
            "font.family": "sans-serif",
            "font.size": 10.5,
            "axes.titlesize": 10.5,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.grid": True,
            "grid.color": faint,
            "grid.linewidth": 0.6,
            "axes.edgecolor": ink,
            "axes.labelcolor": ink,
            "text.color": ink,
            "xtick.color": ink,
            "ytick.color": ink,
            "legend.frameon": False,
            "lines.linewidth": 1.6,
            "figure.constrained_layout.use": True,
        }
    )
    return plt


def to_svg(figure: Any, prefix: str) -> str:
    """The figure as an SVG element that takes its colours from the page around it."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None, "Creator": "wellposed"})
    pyplot().close(figure)
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :].replace(_INK, "currentColor").replace(_FAINT, "var(--grid, #8884)")
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    # Ids must not collide with those of the other figures on the page.
    svg = re.sub(r'\bid="', f'id="{prefix}-', svg)
    svg = re.sub(r'(href="#|url\(#)', rf"\1{prefix}-", svg)
    return re.sub(r'(<svg[^>]*?) width="[^"]*" height="[^"]*"', r"\1", svg, count=1)


def standalone(svg: str) -> str:
    """An SVG file that follows the light or dark setting of whoever looks at it."""
    style = (
        "<style>svg{color:#1c2128;--grid:#d6dbe1}"
        "@media (prefers-color-scheme:dark){svg{color:#dde3ea;--grid:#3c434c}}</style>"
    )
    return re.sub(r"(<svg[^>]*>)", rf"\1{style}", svg, count=1)
