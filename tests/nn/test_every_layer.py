"""Every layer of the library, in its variants, through the suite that all layers share."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import baseline_twins
from layer_suite import LayerSuite
from wellposed.nn import (
    LAYERS,
    S4,
    S4D,
    S4PTD,
    S5,
    S5PTD,
    FlexConv,
    HierarchicalAttention,
    LiquidS4,
    LunaAttention,
    SelfAttention,
)

VARIANT = pytest.mark.slow
"""Every layer goes through the suite at each change, its variants later."""
DIAGONAL = {"A_log_real", "A_imag", "B", "log_dt"}


class TestS4D(LayerSuite):
    layer, options, ssm = S4D, {"d_state": 6}, DIAGONAL


@VARIANT
class TestS4DLin(LayerSuite):
    layer, options, ssm = S4D, {"d_state": 6, "init": "lin", "disc": "bilinear"}, DIAGONAL


@VARIANT
class TestS4DInv(LayerSuite):
    layer, options, ssm = S4D, {"d_state": 6, "init": "inv", "scale": "s4"}, DIAGONAL


class TestS4PTD(LayerSuite):
    layer, options, ssm = S4PTD, {"d_state": 6}, DIAGONAL


@VARIANT
class TestS4PTDBilinear(LayerSuite):
    layer, options, ssm = S4PTD, {"d_state": 6, "disc": "bilinear", "cond": 8.0}, DIAGONAL


@VARIANT
class TestS4PTDFout(LayerSuite):
    """An odd size, as an even one has a pole at 0."""

    layer, options, ssm = S4PTD, {"d_state": 5, "hippo": "fout", "scale": "s4"}, DIAGONAL
    sizes = (1, 3, 5)


class TestS4(LayerSuite):
    layer, options, ssm = S4, {"d_state": 6}, DIAGONAL | {"P"}


@VARIANT
class TestS4ZOH(LayerSuite):
    layer, options, ssm = S4, {"d_state": 6, "disc": "zoh", "scale": "s4"}, DIAGONAL | {"P"}


@VARIANT
class TestS4LegT(LayerSuite):
    layer, options, ssm = S4, {"d_state": 6, "hippo": "legt"}, DIAGONAL | {"P"}


class TestS5(LayerSuite):
    layer, options, ssm = S5, {"d_state": 6}, DIAGONAL


@VARIANT
class TestS5Bilinear(LayerSuite):
    layer, options, ssm = S5, {"d_state": 6, "disc": "bilinear", "C_init": "complex_normal"}, DIAGONAL


class TestS5PTD(LayerSuite):
    layer, options, ssm = S5PTD, {"d_state": 6, "C_init": "truncated_normal"}, DIAGONAL


class TestLiquidS4KB(LayerSuite):
    layer, options, ssm = LiquidS4, {"d_state": 6, "kernel": "kb", "degree": 3}, DIAGONAL | {"P"}


@VARIANT
class TestLiquidS4PolyB(LayerSuite):
    layer, options, ssm = LiquidS4, {"d_state": 6, "kernel": "polyb", "disc": "zoh"}, DIAGONAL | {"P"}


class TestSelfAttention(LayerSuite):
    """The one that is no recurrence: its state grows, and under autocast it computes in the lower precision."""

    layer, options = SelfAttention, {"n_heads": 1, "causal": True}
    modes, sizes, bidirectional = (None,), (), False
    multiple, carries_state_behind_padding, core_is_float32 = 2, False, False

    def twin(self, layer: Any, p: dict[str, Tensor], u: Tensor, state: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """A query at a time; channels in pairs are complex numbers that turn."""
        half, u = layer.d_model // 2, u.cpu()
        q, k, v = (u @ p["qkv.weight"].T + p["qkv.bias"]).chunk(3, -1)
        speed = 10000.0 ** (-torch.arange(half, dtype=torch.float64) / half)
        turn = torch.exp(1j * torch.arange(u.shape[1])[:, None] * speed)
        q, k = (torch.view_as_complex(t.unflatten(-1, (half, 2)).contiguous()) * turn for t in (q, k))
        rows = []
        for t in range(u.shape[1]):
            scores = (q[:, t, None] * k[:, : t + 1].conj()).real.sum(-1) / layer.d_model**0.5
            rows.append((scores.softmax(1)[..., None] * v[:, : t + 1]).sum(1))
        y = torch.stack(rows, 1) @ p["out.weight"].T + p["out.bias"]
        return y, torch.stack([torch.view_as_real(k.resolve_conj()).flatten(-2), v], 1)


class Whole(LayerSuite):
    """What layers that take a sequence whole have in common."""

    modes, sizes, bidirectional = (None,), (), False
    streams, core_is_float32 = False, False


class TestLuna(Whole):
    layer, options, multiple = LunaAttention, {"n_heads": 2, "packed": 40}, 2

    def twin(self, layer: Any, p: dict[str, Tensor], u: Tensor, state: Tensor | None = None) -> tuple[Tensor, Tensor]:
        return baseline_twins.luna(p, u.cpu(), layer.n_heads), u


class TestHierarchicalAttention(Whole):
    layer, options, multiple = HierarchicalAttention, {"n_heads": 2, "block": 4}, 2

    def twin(self, layer: Any, p: dict[str, Tensor], u: Tensor, state: Tensor | None = None) -> tuple[Tensor, Tensor]:
        return baseline_twins.hierarchical(p, u.cpu(), layer.n_heads, layer.block, layer.causal), u


class TestCausalHierarchicalAttention(TestHierarchicalAttention):
    options = {"n_heads": 2, "block": 2, "causal": True, "relative_bias": True, "bias": False}  # noqa: RUF012


class TestFlexConv(LayerSuite):
    layer = FlexConv
    options = {"length": 33, "hidden": 3, "omega_0": 0.3, "mask_width": 0.5}  # noqa: RUF012
    modes, sizes, bidirectional = (None,), (), False

    def twin(self, layer: Any, p: dict[str, Tensor], u: Tensor, state: Tensor | None = None) -> tuple[Tensor, Tensor]:
        return baseline_twins.flexconv(p, u.cpu(), layer.length, None if state is None else state.cpu())


@VARIANT
class TestFlexConvSIREN(TestFlexConv):
    options = {**TestFlexConv.options, "generator": "siren", "omega_0": 3}  # noqa: RUF012


def test_every_layer_has_its_suite():
    suites = {suite.layer for suite in (*LayerSuite.__subclasses__(), *Whole.__subclasses__()) if suite is not Whole}
    assert set(LAYERS.values()) <= suites
