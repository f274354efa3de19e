"""``wellposed report``."""

from __future__ import annotations

from pathlib import Path

from wellposed._files import check_file, check_folder
from wellposed.cli._arguments import Folder
from wellposed.cli._verdicts import show_verdicts


def report(out: Path = Path("report"), records: Folder = None, figures: Folder = None) -> None:
    """Draw the report again from records on disk, without computing anything.

    Args:
        out: Folder for index.html.
        records: Folder of the records; out/records if not given.
        figures: Also write every figure as an SVG file into this folder.
    """
    from wellposed.report import read_records, save_figures

    found = read_records(records or out / "records")
    for folder in filter(None, (out, figures)):
        check_folder(folder)  # before anything is drawn
    check_file(out / "index.html")
    for path in save_figures(found, figures) if figures else ():
        print(f"figure: {path}")
    print(f"report: {show_verdicts(found, out)}")
