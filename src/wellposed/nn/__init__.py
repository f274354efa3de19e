"""Sequence layers and models."""

from wellposed.nn._attention import SelfAttention
from wellposed.nn._blocks import ResidualBlock, TiedDropout
from wellposed.nn._groups import parameter_groups
from wellposed.nn._layer import SequenceLayer
from wellposed.nn._liquid import LiquidS4
from wellposed.nn._models import PairClassifier, SequenceClassifier, SequenceModel, SequenceRegressor
from wellposed.nn._norms import MaskedBatchNorm
from wellposed.nn._pooling import pool
from wellposed.nn._s4 import S4
from wellposed.nn._s4d import S4D, S4PTD
from wellposed.nn._s5 import S5, S5PTD, MIMOOptions
from wellposed.nn._siso import SISOOptions
from wellposed.nn._state_space import StateSpaceLayer

__all__ = [
    "S4",
    "S4D",
    "S4PTD",
    "S5",
    "S5PTD",
    "LiquidS4",
    "MIMOOptions",
    "MaskedBatchNorm",
    "PairClassifier",
    "ResidualBlock",
    "SISOOptions",
    "SelfAttention",
    "SequenceClassifier",
    "SequenceLayer",
    "SequenceModel",
    "SequenceRegressor",
    "StateSpaceLayer",
    "TiedDropout",
    "parameter_groups",
    "pool",
]
