"""One file for every figure or table of the paper; each computes and writes a record, none draws."""

from wellposed.experiments._experiment import Experiment, Result
from wellposed.experiments._registry import NAMES, get, run, run_full
from wellposed.records import Claim, Record, load_record, save_record

__all__ = ["NAMES", "Claim", "Experiment", "Record", "Result", "get", "load_record", "run", "run_full", "save_record"]
