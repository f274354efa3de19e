"""What training has made of the state-space layers: ``analysis.json``, from the weights before and after."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from wellposed._files import write_whole
from wellposed.nn import SequenceModel, StateSpaceLayer
from wellposed.train._folder import ANALYSIS, INITIAL
from wellposed.train._response import Response, layer_response
from wellposed.train._result import load_model, load_run

_EIGENVALUES = 300
"""Of a layer at most, evenly taken from all: for a picture. ``spectra.safetensors`` has all of them."""


def write_analysis(run: str | os.PathLike[str]) -> Path:
    """Eigenvalues, steps and worst-case responses of each layer before and after training, for pictures of them.

    Without the weights before training, as of runs of earlier versions, there is only what came after.
    """
    folder = Path(run)
    after = _layers(load_run(folder).model("cpu"))
    start = folder / INITIAL
    before = _layers(load_model(start, "cpu")) if (start / "config.json").exists() else {}
    layers = [
        {
            "name": name,
            "kind": type(layer).__name__,
            "bidirectional": layer.bidirectional,
            "before": _described(before[name]) if name in before else None,
            "after": _described(layer),
        }
        for name, layer in after.items()
    ]
    return write_whole(folder / ANALYSIS, json.dumps({"schema": 1, "layers": layers}, allow_nan=False) + "\n")


def _layers(model: SequenceModel) -> dict[str, StateSpaceLayer]:
    return {name: module for name, module in model.named_modules() if isinstance(module, StateSpaceLayer)}


@torch.no_grad()
def _described(layer: StateSpaceLayer) -> dict[str, Any]:
    poles, response = _poles(layer), layer_response(layer)
    return {
        "dt": _rounded(layer.dt),
        "eigenvalues": None if poles is None else [_rounded(poles.real), _rounded(poles.imag)],
        "response": None if response is None else _plain(response),
    }


def _poles(layer: Any) -> Tensor | None:
    """Eigenvalues of continuous time, one of each pair; at most so many as a picture can hold."""
    if getattr(layer, "system", None) is None:
        return None
    poles = layer.system().poles().flatten()
    upper = poles[poles.imag >= 0]
    return upper[:: math.ceil(len(upper) / _EIGENVALUES)]


def _plain(response: Response) -> dict[str, Any]:
    """As JSON holds it."""
    curves = {name: _rounded(getattr(response, name)) for name in ("cycles", "largest", "median")}
    return {**curves, "worst": [peak._asdict() for peak in response.worst]}


def _rounded(values: Tensor) -> list[float]:
    """To the digits a picture shows."""
    return [float(f"{value:.5g}") for value in values.detach().double().flatten().tolist()]
