"""Models: the spectra of their state-space layers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from wellposed.errors import ArgumentError
from wellposed.nn import StateSpaceLayer
from wellposed.plot._style import FAINT, S4, axes, ramp

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def spectrum_of(model: nn.Module, *, ax: Axes | None = None) -> Axes:
    """Eigenvalues of all state-space layers of a model, a colour a layer: decay against frequency.

    Of continuous time, one of each conjugate pair. Far left lives what is remembered longest, high up what oscillates
    fastest; both axes are logarithmic, frequency but for its zero.
    """
    found = {name: _upper(layer) for name, layer in _layers(model).items()}
    if not found:
        raise ArgumentError(f"{type(model).__name__} has no state-space layer with a spectrum")
    ax = axes(ax)
    colours = ramp()
    for k, (name, values) in enumerate(found.items()):
        colour = colours(k / (len(found) - 1)) if len(found) > 1 else S4
        label = f"layer {k + 1}" if len(found) > 1 else name or type(model).__name__
        ax.plot(-values.real.numpy(), values.imag.numpy(), "o", ms=3, color=colour, alpha=0.7, label=label)
    top = max(values.imag.max().item() for values in found.values())
    ax.set_xscale("log")
    ax.set_yscale("symlog", linthresh=_power_of_ten(max(top / 1e3, 1e-12)))
    ax.set(xlabel="decay, −Re λ", ylabel="frequency, Im λ", ylim=(0, 2 * max(top, 1e-12)))
    ax.grid(color=FAINT, alpha=0.3, lw=0.6)
    ax.legend()
    return ax


def _power_of_ten(value: float) -> float:
    """The next below: an axis that turns linear there has room for the labels of both, it and zero."""
    return 10.0 ** math.floor(math.log10(value))


def _layers(model: nn.Module) -> dict[str, StateSpaceLayer]:
    layers = {name: module for name, module in model.named_modules() if isinstance(module, StateSpaceLayer)}
    return {name: layer for name, layer in layers.items() if getattr(layer, "system", None) is not None}


@torch.no_grad()
def _upper(layer: StateSpaceLayer) -> Tensor:
    poles = layer.system().poles().cpu().flatten()  # type: ignore[attr-defined]
    return poles[poles.imag >= 0]
