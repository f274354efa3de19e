"""Perturb a matrix by a hair, diagonalise the neighbour, and say how far you went."""

__version__ = "0.1.0"
