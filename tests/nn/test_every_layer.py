"""Every layer of the library, in its variants, through the suite that all layers share."""

from __future__ import annotations

from layer_suite import LayerSuite
from wellposed.nn import LAYERS, S4, S4D, S4PTD, S5, S5PTD, LiquidS4

DIAGONAL = {"A_log_real", "A_imag", "B", "log_dt"}


class TestS4D(LayerSuite):
    layer, options, ssm = S4D, {"d_state": 6}, DIAGONAL


class TestS4DLin(LayerSuite):
    layer, options, ssm = S4D, {"d_state": 6, "init": "lin", "disc": "bilinear"}, DIAGONAL


class TestS4DInv(LayerSuite):
    layer, options, ssm = S4D, {"d_state": 6, "init": "inv", "scale": "s4"}, DIAGONAL


class TestS4PTD(LayerSuite):
    layer, options, ssm = S4PTD, {"d_state": 6}, DIAGONAL


class TestS4PTDBilinear(LayerSuite):
    layer, options, ssm = S4PTD, {"d_state": 6, "disc": "bilinear", "cond": 8.0}, DIAGONAL


class TestS4PTDFout(LayerSuite):
    """An odd size, as an even one has a pole at 0."""

    layer, options, ssm = S4PTD, {"d_state": 5, "hippo": "fout", "scale": "s4"}, DIAGONAL
    sizes = (1, 3, 5)


class TestS4(LayerSuite):
    layer, options, ssm = S4, {"d_state": 6}, DIAGONAL | {"P"}


class TestS4ZOH(LayerSuite):
    layer, options, ssm = S4, {"d_state": 6, "disc": "zoh", "scale": "s4"}, DIAGONAL | {"P"}


class TestS4LegT(LayerSuite):
    layer, options, ssm = S4, {"d_state": 6, "hippo": "legt"}, DIAGONAL | {"P"}


class TestS5(LayerSuite):
    layer, options, ssm = S5, {"d_state": 6}, DIAGONAL


class TestS5Bilinear(LayerSuite):
    layer, options, ssm = S5, {"d_state": 6, "disc": "bilinear", "C_init": "complex_normal"}, DIAGONAL


class TestS5PTD(LayerSuite):
    layer, options, ssm = S5PTD, {"d_state": 6, "C_init": "truncated_normal"}, DIAGONAL


class TestLiquidS4KB(LayerSuite):
    layer, options, ssm = LiquidS4, {"d_state": 6, "kernel": "kb", "degree": 3}, DIAGONAL | {"P"}


class TestLiquidS4PolyB(LayerSuite):
    layer, options, ssm = LiquidS4, {"d_state": 6, "kernel": "polyb", "disc": "zoh"}, DIAGONAL | {"P"}


def test_every_state_space_layer_has_its_suite():
    tested = {suite.layer for suite in LayerSuite.__subclasses__()}
    assert {layer for name, layer in LAYERS.items() if name != "attention"} <= tested
