"""How layers compute: a layer makes a bank of discrete systems, and these run it.

A faster backend replaces ``scan`` or ``run_scan`` for the banks it knows; no layer has to change.
"""

from wellposed.nn._kernels._bank import (
    Bank,
    DenseBank,
    DiagonalBank,
    Discretisation,
    diagonal_bank,
    discretize,
    wide,
)
from wellposed.nn._kernels._compute import run_convolution, run_scan
from wellposed.nn._kernels._fft import convolve
from wellposed.nn._kernels._scan import adjoint, scan, times

__all__ = [
    "Bank",
    "DenseBank",
    "DiagonalBank",
    "Discretisation",
    "adjoint",
    "convolve",
    "diagonal_bank",
    "discretize",
    "run_convolution",
    "run_scan",
    "scan",
    "times",
    "wide",
]
