"""How a newcomer proves a layer: a class that inherits the suite, and a twin written from the equation."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from layer_suite import LayerSuite
from toy_layer import Average


class TestAverage(LayerSuite):
    layer = Average
    modes = (None,)
    bidirectional = False
    sizes = ()
    ssm = {"log_rate"}  # noqa: RUF012

    def twin(self, layer: Any, p: dict[str, Tensor], u: Tensor, state: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The sum that defines a running average, written out."""
        a, u = torch.exp(-p["log_rate"].exp()), u.cpu()
        x0 = torch.zeros(u.shape[0], u.shape[2], dtype=u.dtype) if state is None else state.cpu()
        ys = []
        for t in range(u.shape[1]):
            weights = a ** torch.arange(t, -1, -1)[:, None]
            ys.append((1 - a) * (weights * u[:, : t + 1]).sum(1) + a ** (t + 1) * x0)
        return torch.stack(ys, 1), ys[-1]
