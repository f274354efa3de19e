"""Colours and marks that every picture of the library shares."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from wellposed.errors import ArgumentError, MissingExtraError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

S4 = "#3d8bd4"
S4D = "#e0692b"
THIRD = "#2fa37c"
SHADES = ("#f0a35e", "#e0692b", "#b8405e", "#8a4fb5")  # growing n
FAINT = "#8d96a0"
COLORS = {"S4": S4, "S4D": S4D, "PTD": THIRD}
"""Of the three in every picture, for pictures of your own."""

# The reference thick and pale, so that what follows it can be seen on top; then thin, then dashed.
LINES: tuple[dict[str, Any], ...] = (
    {"color": S4, "lw": 4.0, "alpha": 0.55},
    {"color": S4D, "lw": 1.2},
    {"color": THIRD, "lw": 1.6, "ls": (0, (5, 1.5))},
    {"color": SHADES[3], "lw": 1.4, "ls": ":"},
    {"color": FAINT, "lw": 1.4, "ls": "-."},
)
MARKS: tuple[dict[str, Any], ...] = (
    {"marker": "+", "color": "#7a838d", "ms": 7},
    {"marker": "o", "color": THIRD, "ms": 4},
    {"marker": "x", "color": S4D, "ms": 5},
    {"marker": "s", "color": SHADES[3], "ms": 4, "mfc": "none"},
    {"marker": "^", "color": FAINT, "ms": 5, "mfc": "none"},
)
STRONG: dict[str, Any] = {"colors": [THIRD], "linewidths": 1.8, "linestyles": "--"}
"""How the level ``||E||`` of a pseudospectrum is drawn, always; so it is in the explorer."""


def axes(ax: Axes | None) -> Axes:
    """The axes given, or those of a new figure."""
    if ax is not None:
        return ax
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise MissingExtraError("matplotlib", "plots") from None
    return plt.subplots(layout="constrained")[1]


def ramp() -> Any:
    """A colour map without its darkest and lightest ends, which a dark or a light page would swallow."""
    import matplotlib
    from matplotlib.colors import ListedColormap

    return ListedColormap([matplotlib.colormaps["viridis"](0.4 + 0.35 * k / 255) for k in range(256)])


def named(what: Any, name: str) -> dict[str, Any]:
    """Several things by name; one alone gets ``name``, under which nothing is written in a legend."""
    found = dict(what) if isinstance(what, Mapping) else {name: what}
    if not 1 <= len(found) <= len(LINES):
        raise ArgumentError(f"one picture shows 1 to {len(LINES)} of them, got {len(found)}: draw several pictures")
    return found
