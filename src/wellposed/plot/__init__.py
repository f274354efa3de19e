"""Pictures of systems, matrices and models, in matplotlib: every function takes an ``ax`` and returns it.

Colours can be told apart by colour-blind readers, and line styles and markers differ besides. Needs matplotlib:
``pip install 'wellposed[plots]'``.
"""

from wellposed.plot._matrices import eigenvalues, pseudospectrum, tradeoff
from wellposed.plot._models import spectrum_of
from wellposed.plot._style import COLORS
from wellposed.plot._systems import bode, kernel, spikes

__all__ = ["COLORS", "bode", "eigenvalues", "kernel", "pseudospectrum", "spectrum_of", "spikes", "tradeoff"]
