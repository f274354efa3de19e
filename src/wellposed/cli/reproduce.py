"""``wellposed reproduce``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import tyro

from wellposed._files import check_folder, make_folder
from wellposed.cli._arguments import Folder
from wellposed.cli._progress import track_steps
from wellposed.cli._verdicts import show_verdicts


def reproduce(
    names: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="[NAME ...]")] = (),
    out: Path = Path("report"),
    records: Folder = None,
) -> None:
    """Run the paper's experiments, compare with the paper, and write the report.

    Args:
        names: Experiments to run; all of them if none is named. 'wellposed list' shows their names.
        out: Folder for index.html and, in records/, one JSON file an experiment.
        records: Another folder for the records.
    """
    from wellposed.experiments import NAMES, get, run
    from wellposed.records import save_record
    from wellposed.report import read_records

    for name in names:
        get(name)  # an unknown name is found before anything runs
    check_folder(records or out)  # as is a folder that cannot be made
    make_folder(out)
    folder = make_folder(records or out / "records")
    for name in names or NAMES:
        save_record(run(name, track=track_steps(name)), folder)
    print(f"report: {show_verdicts(read_records(folder), out)}")
