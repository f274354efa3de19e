"""Draws and compares: figures and self-contained pages, from records alone; samples of a data set."""

from wellposed.report._figures import save_figures
from wellposed.report._page import write_page
from wellposed.report._plots import check_figure_path, save_bode, save_pseudospectra
from wellposed.report._records import read_records
from wellposed.report._run_page import save_run_summary
from wellposed.report._samples import print_samples, save_samples
from wellposed.report._speed import save_speed
from wellposed.report._verdicts import Verdict, verdicts

__all__ = [
    "Verdict",
    "check_figure_path",
    "print_samples",
    "read_records",
    "save_bode",
    "save_figures",
    "save_pseudospectra",
    "save_run_summary",
    "save_samples",
    "save_speed",
    "verdicts",
    "write_page",
]
