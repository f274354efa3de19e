"""The paper's configurations, and those of the models it compares with, as functions that return a config."""

from wellposed.presets._ccnn import lra_ccnn
from wellposed.presets._describe import describe, fields_of
from wellposed.presets._estimate import Estimate, estimate
from wellposed.presets._luna import lra_luna
from wellposed.presets._preset import Preset
from wellposed.presets._s4 import lra_liquid_s4, lra_s4, lra_s4d, lra_s4ptd, lra_s4ptd_small
from wellposed.presets._s5 import lra_s5, lra_s5ptd, lra_s5ptd_small
from wellposed.presets._scifar import scifar, scifar_ablation, scifar_robustness
from wellposed.presets._sinusoids import sinusoids
from wellposed.presets._table import PRESETS, preset
from wellposed.presets._tasks import SHAPES, TaskShape, shape_of
from wellposed.presets._tiny import tiny
from wellposed.presets._transformer import lra_h_transformer, lra_transformer

__all__ = [
    "PRESETS",
    "SHAPES",
    "Estimate",
    "Preset",
    "TaskShape",
    "describe",
    "estimate",
    "fields_of",
    "lra_ccnn",
    "lra_h_transformer",
    "lra_liquid_s4",
    "lra_luna",
    "lra_s4",
    "lra_s4d",
    "lra_s4ptd",
    "lra_s4ptd_small",
    "lra_s5",
    "lra_s5ptd",
    "lra_s5ptd_small",
    "lra_transformer",
    "preset",
    "scifar",
    "scifar_ablation",
    "scifar_robustness",
    "shape_of",
    "sinusoids",
    "tiny",
]
