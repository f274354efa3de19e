"""``wellposed summary``."""

from __future__ import annotations

from typing import Annotated

import tyro


def summary(run: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]) -> None:
    """Draw the page of a run, summary.html in its folder: curves, spectra and the worst-case response of its layers.

    A finished run has it already; this draws it again, or that of a run as it stands.

    Args:
        run: Name of a run in runs/, or its folder.
    """
    from wellposed.presets.command import run_folder
    from wellposed.train import summarize

    place = run_folder(run)
    assert place is not None
    print(f"summary: {summarize(place)}")
