"""``summary.html`` of a run: the numbers behind it are computed here, the page is drawn by ``report``."""

from __future__ import annotations

import os
from pathlib import Path

from wellposed.train._analysis import write_analysis
from wellposed.train._folder import ANALYSIS
from wellposed.train._result import is_finished


def summarize(run: str | os.PathLike[str]) -> Path:
    """Write ``analysis.json`` and ``summary.html`` into a run's folder, finished or not; the page's path.

    A finished run does not change any more: what was computed of it is drawn again.
    """
    from wellposed.report import save_run_summary  # which needs packages that training does not

    folder = Path(run)
    if not (is_finished(folder) and (folder / ANALYSIS).exists()):
        write_analysis(folder)
    return save_run_summary(folder)
