"""A few sequences of a data set, drawn to a file or written to a terminal."""

from __future__ import annotations

import math
import textwrap
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from wellposed.report._plots import check_figure_path
from wellposed.report._style import S4, pyplot

_BARS = " ▁▂▃▄▅▆▇█"
_SHADES = " .:-=+*#%@"
_COLUMNS, _CHARACTERS, _WIDE = 76, 400, 150


@runtime_checkable
class Words(Protocol):
    """What turns tokens back into text."""

    def decode(self, numbers: list[int], /) -> str:
        """The text."""
        ...


@runtime_checkable
class About(Protocol):
    """What the sequences of a data set are."""

    @property
    def picture(self) -> tuple[int, int] | None:
        """Height and width of what is drawn as a picture."""
        ...

    @property
    def targets(self) -> tuple[str, ...]:
        """Names of the numbers to be predicted."""
        ...


@runtime_checkable
class Samples(Protocol):
    """All that is asked of a data set to draw it."""

    @property
    def info(self) -> About:
        """What its sequences are."""
        ...

    @property
    def vocabulary(self) -> Words | None:
        """Of tokens; ``None`` for numbers."""
        ...

    @property
    def classes(self) -> tuple[str, ...]:
        """Their names, where the target is one of them."""
        ...

    @property
    def rows(self) -> Any:
        """The sequences as they are kept, by their index: pixels before they are normalised."""
        ...

    @property
    def y(self) -> Any:
        """The targets, by their index."""
        ...

    def __getitem__(self, item: int, /) -> tuple[Any, ...]:
        """A sequence, or two of a pair, and the target."""
        ...


def save_samples(path: Path, dataset: Samples, items: list[int]) -> Path:
    """These items with their targets, written to ``path`` (.png, .svg or .pdf)."""
    check_figure_path(path)
    plt = pyplot(ink="#1c2128", faint="#d6dbe1")
    pictures = dataset.info.picture is not None
    columns = math.ceil(math.sqrt(len(items))) if pictures else 1
    rows = math.ceil(len(items) / columns)
    size = (1.7 * columns, 1.9 * rows) if pictures else (9, _height(dataset, items) * rows)
    figure, axes = plt.subplots(rows, columns, figsize=size, squeeze=False, sharex=True, sharey=True)
    draw = _draw_picture if pictures else _draw_text if dataset.vocabulary else _draw_wave
    for ax in axes.flat:
        ax.axis("off")
    for ax, item in zip(axes.flat, items, strict=False):
        ax.set_title(target(dataset, item).replace("$", r"\$"), fontsize=9, loc="center" if pictures else "left")
        draw(ax, dataset, item)
    figure.savefig(path, dpi=160, facecolor="white")
    plt.close(figure)
    return path


def _draw_picture(ax: Any, dataset: Samples, item: int) -> None:
    ax.imshow(pixels(dataset, item).numpy(), cmap="gray", vmin=0, vmax=255, interpolation="nearest")


def _height(dataset: Samples, items: list[int]) -> float:
    """Inches for the longest of the texts, or for a wave."""
    if not dataset.vocabulary:
        return 1.5
    return 0.4 + 0.125 * max(_wrapped(dataset, item).count("\n") + 1 for item in items)


def _wrapped(dataset: Samples, item: int) -> str:
    parts = (line for text in texts(dataset, item) for line in [*_shortened(text).split("\n"), ""])
    return "\n".join(textwrap.fill(line, _WIDE) for line in parts).rstrip()


def _draw_text(ax: Any, dataset: Samples, item: int) -> None:
    text = _wrapped(dataset, item).replace("$", r"\$")
    ax.text(0, 1, text, family="monospace", fontsize=6.5, va="top", transform=ax.transAxes)


def _draw_wave(ax: Any, dataset: Samples, item: int) -> None:
    ax.axis("on")
    ax.plot(dataset[item][0][:, 0].tolist(), color=S4, lw=0.8)
    ax.label_outer()


def print_samples(console: Any, dataset: Samples, items: list[int]) -> None:
    """These items with their targets as text: shades for pictures, the tokens, or the course of a wave."""
    for item in items:
        console.print(f"\n{target(dataset, item)}", style="bold", markup=False, highlight=False)
        if dataset.info.picture:
            _print_picture(console, pixels(dataset, item))
        elif dataset.vocabulary:
            for text in texts(dataset, item):
                console.print(_shortened(text), markup=False, highlight=False)
        else:
            console.print(sparkline(dataset[item][0][:, 0].tolist()), markup=False, highlight=False)


def _print_picture(console: Any, picture: Any) -> None:
    """Two pixels a character in colour where the terminal has it, else one character for each two of a row."""
    from rich.text import Text

    step = max(1, picture.shape[1] // 64)
    picture = picture[::step, ::step].expand(-1, -1, 3).tolist()
    for upper, lower in zip(picture[::2], picture[1::2], strict=False):
        if console.color_system is None:
            console.print("".join(_SHADES[sum(p) * len(_SHADES) // (3 * 256)] * 2 for p in upper), markup=False)
        else:
            pairs = (("▀", "rgb({},{},{}) on rgb({},{},{})".format(*a, *b)) for a, b in zip(upper, lower, strict=True))
            console.print(Text.assemble(*pairs))


def target(dataset: Samples, item: int) -> str:
    """Its class, or its numbers by name."""
    y = dataset.y[item]
    if dataset.classes:
        return _shortened(dataset.classes[int(y)])
    return ", ".join(f"{name} = {value:.4g}" for name, value in zip(dataset.info.targets, y.tolist(), strict=True))


def pixels(dataset: Samples, item: int) -> Any:
    """The picture as it is kept: uint8 ``(row, column, channel)``."""
    assert dataset.info.picture is not None
    return dataset.rows[item].reshape(*dataset.info.picture, -1)


def texts(dataset: Samples, item: int) -> list[str]:
    """The text, or the two of a pair."""
    assert dataset.vocabulary is not None
    return [dataset.vocabulary.decode(sequence.tolist()) for sequence in dataset[item][:-1]]


def sparkline(values: list[float]) -> str:
    """The first steps of a wave, or the whole of a slow one, in one line of blocks."""
    crossings = sum(a * b < 0 for a, b in pairwise(values))
    shown = values[: max(_COLUMNS, int(len(values) * min(1, 10 / max(crossings, 1))))]
    picked = [shown[k * (len(shown) - 1) // (_COLUMNS - 1)] for k in range(_COLUMNS)] if len(shown) > 1 else shown
    top = max(map(abs, picked)) or 1.0
    return "".join(_BARS[round((v / top + 1) / 2 * (len(_BARS) - 1))] for v in picked)


def _shortened(text: str) -> str:
    """The beginning, without characters that would steer a terminal."""
    shown = "".join(c if c.isprintable() or c == "\n" else "\ufffd" for c in text[:_CHARACTERS])
    return shown if len(text) <= _CHARACTERS else f"{shown} ... ({len(text)} characters)"
