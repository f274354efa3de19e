"""How layers compute: recurrences as pure functions of tensors, one file a backend, and one dispatch that chooses.

A layer describes its systems (``DiagonalParameters``, ``LowRankParameters``, ``DenseRecurrence``,
``SharedParameters``, or any ``LowRankRecurrence``) and what it wants of them (``Work``), and calls ``run``. It does not
know which backend runs.
"""

from wellposed.kernels.dense import DenseRecurrence
from wellposed.kernels.device import has_triton
from wellposed.kernels.diagonal import DiagonalParameters, DiagonalRecurrence, Spectrum
from wellposed.kernels.discretize import DISCRETISATIONS, Discretisation, discretize
from wellposed.kernels.dispatch import BACKENDS, Backend, Mode, choose, run
from wellposed.kernels.low_rank import LowRankParameters, LowRankRecurrence
from wellposed.kernels.padding import align_right, reverse, take_steps, zero_padding
from wellposed.kernels.precision import as_float64
from wellposed.kernels.recurrence import Recurrence
from wellposed.kernels.scan import adjoint, scan, times
from wellposed.kernels.shared import SharedParameters, SharedRecurrence
from wellposed.kernels.work import Output, Work

__all__ = [
    "BACKENDS",
    "DISCRETISATIONS",
    "Backend",
    "DenseRecurrence",
    "DiagonalParameters",
    "DiagonalRecurrence",
    "Discretisation",
    "LowRankParameters",
    "LowRankRecurrence",
    "Mode",
    "Output",
    "Recurrence",
    "SharedParameters",
    "SharedRecurrence",
    "Spectrum",
    "Work",
    "adjoint",
    "align_right",
    "as_float64",
    "choose",
    "discretize",
    "has_triton",
    "reverse",
    "run",
    "scan",
    "take_steps",
    "times",
    "zero_padding",
]
