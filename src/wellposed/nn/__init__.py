"""Sequence layers and models, and the noise that breaks S4D."""

from wellposed.nn._attention import AttentionConfig, SelfAttention
from wellposed.nn._block_config import BlockConfig
from wellposed.nn._classifier import SequenceClassifier
from wellposed.nn._flexconv import FlexConv, FlexConvConfig
from wellposed.nn._groups import parameter_groups
from wellposed.nn._hierarchical import HierarchicalAttention, HierarchicalConfig
from wellposed.nn._layer import SequenceLayer
from wellposed.nn._layers import LAYERS
from wellposed.nn._liquid import LiquidS4, LiquidS4Config
from wellposed.nn._luna import LunaAttention, LunaConfig
from wellposed.nn._mimo import MIMOConfig
from wellposed.nn._model_config import ModelConfig
from wellposed.nn._multi_head import MultiHeadConfig
from wellposed.nn._noise import FourierNoise, fourier_noise
from wellposed.nn._norms import MaskedBatchNorm
from wellposed.nn._pair_classifier import PairClassifier
from wellposed.nn._pooling import pool
from wellposed.nn._regressor import SequenceRegressor
from wellposed.nn._residual_block import ResidualBlock
from wellposed.nn._s4 import S4, S4Config
from wellposed.nn._s4d import S4D, S4DConfig
from wellposed.nn._s4ptd import S4PTD, S4PTDConfig
from wellposed.nn._s5 import S5
from wellposed.nn._s5ptd import S5PTD, S5PTDConfig
from wellposed.nn._sequence_model import SequenceModel
from wellposed.nn._siso import SISOConfig
from wellposed.nn._state_space import StateSpaceConfig, StateSpaceLayer
from wellposed.nn._tied_dropout import TiedDropout
from wellposed.nn._transformer_block import TransformerBlock

SISOOptions = MIMOOptions = dict  # what they were before there were configs: options by name

__all__ = [
    "LAYERS",
    "S4",
    "S4D",
    "S4PTD",
    "S5",
    "S5PTD",
    "AttentionConfig",
    "BlockConfig",
    "FlexConv",
    "FlexConvConfig",
    "FourierNoise",
    "HierarchicalAttention",
    "HierarchicalConfig",
    "LiquidS4",
    "LiquidS4Config",
    "LunaAttention",
    "LunaConfig",
    "MIMOConfig",
    "MIMOOptions",
    "MaskedBatchNorm",
    "ModelConfig",
    "MultiHeadConfig",
    "PairClassifier",
    "ResidualBlock",
    "S4Config",
    "S4DConfig",
    "S4PTDConfig",
    "S5PTDConfig",
    "SISOConfig",
    "SISOOptions",
    "SelfAttention",
    "SequenceClassifier",
    "SequenceLayer",
    "SequenceModel",
    "SequenceRegressor",
    "StateSpaceConfig",
    "StateSpaceLayer",
    "TiedDropout",
    "TransformerBlock",
    "fourier_noise",
    "parameter_groups",
    "pool",
]
