"""How layers compute: a layer makes a bank of discrete systems, and these run it.

A faster backend replaces ``scan`` or ``run_scan`` for the banks it knows; no layer has to change.
"""

from wellposed.nn._kernels._bank import (
    Bank,
    DenseBank,
    DiagonalBank,
    Discretisation,
    Spectrum,
    diagonal_bank,
    discretize,
    wide,
)
from wellposed.nn._kernels._compute import joined, run_convolution, run_scan, segment
from wellposed.nn._kernels._fft import convolve
from wellposed.nn._kernels._scan import adjoint, scan, times

__all__ = [
    "Bank",
    "DenseBank",
    "DiagonalBank",
    "Discretisation",
    "Spectrum",
    "adjoint",
    "convolve",
    "diagonal_bank",
    "discretize",
    "joined",
    "run_convolution",
    "run_scan",
    "scan",
    "segment",
    "times",
    "wide",
]
