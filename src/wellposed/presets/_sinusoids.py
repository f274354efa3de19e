"""Sinusoids: the failure modes of S4D (section 3.4)."""

from __future__ import annotations

from typing import Any, Literal

from wellposed.errors import UnknownNameError
from wellposed.train import DataConfig, OptimizerConfig, RunConfig, ScheduleConfig

Problem = Literal["interp", "extrap"]

_DT = 0.005
_LAYERS: dict[str, dict[str, Any]] = {"s4": {}, "s4d": {}, "s4ptd": {"rel": 0.1}}


def sinusoids(layer: str, problem: Problem = "extrap") -> RunConfig:
    """Tell the amplitude and the frequency of a wave, some frequencies kept back.

    Every channel takes the sampling step for its dt, and keeps it, so that a frequency means the same to the data and
    to the system: 16 states have a spike at 81, where the extrapolation begins. Frequencies are told as a share of the
    largest, so that both weigh alike. The paper prints neither sizes nor rates nor a number of waves; these are ours.
    It samples 10^4 steps, here 2000 cover the same time.
    """
    if layer not in _LAYERS:
        raise UnknownNameError("layer of this experiment", layer, _LAYERS)
    options = {"d_state": 16, "dt_min": _DT, "dt_max": _DT, "scale": "s4"} | _LAYERS[layer]
    return RunConfig(
        data=DataConfig(
            task="sinusoids",
            options={"problem": problem, "dt": _DT, "steps": 2000, "count": 2000, "scaled": True},
            batch_size=50,
        ),
        model={
            "layer": layer,
            "layer_options": options,
            "d_model": 64,
            "n_layers": 4,
        },
        optimizer=OptimizerConfig(lr=0.004, ssm_lr=0.001, weight_decay=0.0, frozen=("log_dt",)),
        schedule=ScheduleConfig(warmup_epochs=1),
        epochs=50,
        note="sizes, rates and the number of waves are ours: the paper prints none",
    )
