"""Perturb a matrix by a hair, diagonalise the neighbour, and say how far you went.

The rooms, in the order data flows through them: ``linalg`` (matrices), ``hippo`` (the matrices of long memory),
``systems`` (linear systems and the paper's closed forms), ``nn`` (sequence layers and models).
"""

from wellposed import errors, hippo, linalg, nn, systems
from wellposed.linalg import (
    Diagonalization,
    departure_from_normality,
    eigenvector_condition,
    pseudospectra,
    ptd,
)

__version__ = "0.2.0"

__all__ = [
    "Diagonalization",
    "__version__",
    "departure_from_normality",
    "eigenvector_condition",
    "errors",
    "hippo",
    "linalg",
    "nn",
    "pseudospectra",
    "ptd",
    "systems",
]
