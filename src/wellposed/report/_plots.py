"""Plots the command line saves: a Bode plot of systems side by side, pseudospectra with eigenvalues."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from wellposed.errors import RecordError
from wellposed.report._style import S4, S4D, THIRD, WIDTH, pyplot


def save_bode(path: Path, omega: Sequence[float], responses: Mapping[str, Sequence[complex]]) -> Path:
    """Magnitude and phase of every response over ``omega``, written to ``path`` (.png, .svg or .pdf)."""
    check_figure_path(path)
    plt = pyplot(ink="#1c2128", faint="#d6dbe1")
    figure, (top, bottom) = plt.subplots(2, 1, figsize=(1.5 * WIDTH, 5.6), sharex=True)
    for (name, values), color in zip(responses.items(), (S4, S4D, THIRD), strict=False):
        top.loglog(omega, [abs(v) for v in values], label=name, color=color)
        phase = [math.degrees(math.atan2(v.imag, v.real)) for v in values]
        bottom.semilogx(omega, phase, color=color, lw=1.2)
    top.set_ylabel("|G|")
    top.legend()
    bottom.set(ylabel="phase in degrees", xlabel="frequency in rad/s", yticks=[-180, -90, 0, 90, 180])
    figure.savefig(path, dpi=160, facecolor="white")
    plt.close(figure)
    return path


def save_pseudospectra(path: Path, grid: Any, perturbed: Any, norm: Any) -> Path:
    """Level curves of ``sigma_min(zI - A)``, the eigenvalues of A and those of A + E, written to ``path``.

    The curve of the level ``||E||``, which no eigenvalue of A + E can leave, is drawn strong.
    """
    check_figure_path(path)
    plt = pyplot(ink="#1c2128", faint="#d6dbe1")
    figure, ax = plt.subplots(figsize=(1.5 * WIDTH, 1.2 * WIDTH))
    level = grid.sigma.clamp(min=1e-300).log10()
    lines = ax.contour(grid.x, grid.y, level, levels=10, cmap="viridis", linewidths=1)
    ax.clabel(lines, fmt="%.1f", fontsize=8)
    if level.min() < math.log10(max(norm, 1e-300)) < level.max():
        ax.contour(grid.x, grid.y, level, levels=[math.log10(norm)], colors=[S4], linewidths=1.6)
    ax.plot(grid.eigenvalues.real, grid.eigenvalues.imag, "+", color=S4D, label="eigenvalues of A, as eig finds them")
    ax.plot(perturbed.real, perturbed.imag, "o", color=S4, ms=4, label=f"of A + E, ‖E‖ = {norm:.3g}")
    ax.set(xlabel="real part", ylabel="imaginary part", title="log₁₀ σ_min(zI − A)")
    ax.legend()
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
