"""Matrices and their eigenvectors; knows nothing of sequences."""

from wellposed.linalg import gallery
from wellposed.linalg._diagonalization import Diagonalization
from wellposed.linalg._expm import matrix_exp
from wellposed.linalg._normality import departure_from_normality, eigenvector_condition
from wellposed.linalg._pseudospectra import Pseudospectra, pseudospectra
from wellposed.linalg._ptd import ptd
from wellposed.linalg._skew import eig_shifted_skew

__all__ = [
    "Diagonalization",
    "Pseudospectra",
    "departure_from_normality",
    "eig_shifted_skew",
    "eigenvector_condition",
    "gallery",
    "matrix_exp",
    "pseudospectra",
    "ptd",
]
