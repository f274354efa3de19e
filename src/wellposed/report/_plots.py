"""Plots the command line saves: a Bode plot of systems side by side, pseudospectra with eigenvalues."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from wellposed.errors import RecordError
from wellposed.plot import bode
from wellposed.plot._matrices import draw_pseudospectrum
from wellposed.report._style import WIDTH, pyplot


def save_bode(path: Path, omega: Sequence[float], responses: Mapping[str, Sequence[complex]]) -> Path:
    """Magnitude and phase of every response over ``omega``, written to ``path`` (.png, .svg or .pdf)."""
    check_figure_path(path)
    plt = pyplot(ink="#1c2128", faint="#d6dbe1")
    figure, (top, bottom) = plt.subplots(2, 1, figsize=(1.5 * WIDTH, 5.6), sharex=True)
    drawn = {name: list(values) for name, values in responses.items()}
    bode(drawn, omega, ax=top).set_xlabel("")
    bode(drawn, omega, part="phase", ax=bottom)
    bottom.get_legend().remove()
    figure.savefig(path, dpi=160, facecolor="white")
    plt.close(figure)
    return path


def save_pseudospectra(path: Path, grid: Any, perturbed: Any, norm: Any) -> Path:
    """Level curves of ``sigma_min(zI - A)``, the eigenvalues of A and those of A + E, written to ``path``.

    The curve of the level ``||E||``, which no eigenvalue of A + E can leave, is drawn strong and named in the legend.
    """
    check_figure_path(path)
    plt = pyplot(ink="#1c2128", faint="#d6dbe1")
    figure, ax = plt.subplots(figsize=(1.5 * WIDTH, 1.2 * WIDTH))
    draw_pseudospectrum(grid, perturbed, norm, levels=10, ax=ax)
    figure.savefig(path, dpi=160, facecolor="white")
    plt.close(figure)
    return path


def check_figure_path(path: Path) -> None:
    """Refuse what no figure can be written to: another ending than .png, .svg or .pdf, a folder that is not there."""
    if path.suffix.lower() not in (".png", ".svg", ".pdf"):
        raise RecordError(f"cannot draw a {path.suffix or 'file without an ending'!r}: name it .png, .svg or .pdf")
    if not path.parent.is_dir():
        raise RecordError(
            f"there is no folder {path.parent} to put {path.name} in: create it first, or correct the name"
        )
