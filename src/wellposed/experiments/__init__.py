"""One file for every figure or table of the paper; each computes and writes a record, none draws."""

from wellposed.experiments._record import Claim, Experiment, Record, Result, load_record, save_record
from wellposed.experiments._registry import NAMES, get, run

__all__ = ["NAMES", "Claim", "Experiment", "Record", "Result", "get", "load_record", "run", "save_record"]
