"""One page that needs nothing but itself, to see and touch what a perturbation does to a matrix and its system."""

from wellposed.explorer._legs import legs_subject
from wellposed.explorer._own import own_subject
from wellposed.explorer._page import write_explorer
from wellposed.explorer._subject import Subject

__all__ = ["Subject", "legs_subject", "own_subject", "write_explorer"]
