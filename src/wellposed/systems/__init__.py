"""Linear time-invariant systems: responses, time steps, simulation, distances, and the paper's closed forms."""

from wellposed.systems import closed_forms
from wellposed.systems._base import System
from wellposed.systems._dense import DenseSystem
from wellposed.systems._diagonal import DiagonalSystem
from wellposed.systems._dplr import DPLRSystem
from wellposed.systems._linf import LinfDistance, linf_distance
from wellposed.systems._paper import s4, s4d
from wellposed.systems._spikes import Spike, Spikes, spikes
from wellposed.systems.interop import from_control, from_scipy, to_control, to_scipy

__all__ = [
    "DPLRSystem",
    "DenseSystem",
    "DiagonalSystem",
    "LinfDistance",
    "Spike",
    "Spikes",
    "System",
    "closed_forms",
    "from_control",
    "from_scipy",
    "linf_distance",
    "s4",
    "s4d",
    "spikes",
    "to_control",
    "to_scipy",
]
