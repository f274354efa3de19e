"""Matrices and their eigenvectors; knows nothing of sequences."""

from wellposed.linalg._skew import eig_shifted_skew

__all__ = ["eig_shifted_skew"]
