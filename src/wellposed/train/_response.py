"""How strongly a layer answers at its worst frequency: a quick look at all channels, a certificate for the worst."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from jaxtyping import Float64
from torch import Tensor

from wellposed.errors import WellposedError
from wellposed.nn import StateSpaceLayer
from wellposed.systems import DiagonalSystem, System, linf_distance

_LOWEST = 1e-5
"""Cycles a step of the slowest wave looked at: one in 100,000 steps."""
_MANY, _FEW = 512, 48
"""Frequencies looked at: of a diagonal system a channel, and where each costs matrices."""
_CERTIFIED = 3
"""Channels of a layer that get a certificate; one where each costs matrices."""
_RTOL = 1e-4


class Peak(NamedTuple):
    """The supremum of one output channel's response over all frequencies."""

    channel: int
    value: float
    """Attained ..."""
    cycles: float
    """... by a wave of so many cycles a step."""
    upper: float | None
    """Nothing exceeds it; ``None`` where that could not be certified, and ``value`` is the largest seen."""


class Response(NamedTuple):
    """What the channels of a layer answer to waves of amplitude 1."""

    cycles: Float64[Tensor, " k"]
    largest: Float64[Tensor, " k"]
    """Over the channels ..."""
    median: Float64[Tensor, " k"]
    """... and of the one in the middle."""
    worst: list[Peak]
    """The worst first."""


def layer_response(layer: StateSpaceLayer) -> Response | None:
    """Of the layer as it runs, in discrete time; ``None`` where it is no linear system.

    An output channel answers to its own input, or in S5 to all: then the norm over the inputs counts. Of layers that
    read both ways it is the part that reads forward.
    """
    system = _as_run(layer)
    if system is None:
        return None
    cheap = bool(system.batch_shape) and isinstance(system, DiagonalSystem)
    ends = math.log10(_LOWEST), math.log10(0.5)
    angles = 2 * math.pi * torch.logspace(*ends, _MANY if cheap else _FEW, dtype=torch.float64, device="cpu")
    sizes = _sizes(system, angles)
    peaks = torch.maximum(sizes.amax(-1), _near_poles(system))
    worst = peaks.argsort(descending=True)[: _CERTIFIED if cheap else 1].tolist()
    found = [_certified(i, _row(system, i), sizes[i], angles) for i in worst]
    found.sort(key=lambda peak: -peak.value)
    return Response(angles / (2 * math.pi), sizes.amax(0), sizes.median(0).values, found)


def _as_run(layer: Any) -> System | None:
    """The layer's system in discrete time, a step taking one unit of it: ``C x_t`` is read after the input came in."""
    if getattr(layer, "system", None) is None:
        return None
    system = layer.system().detach().to(device="cpu", dtype=torch.float64)
    # One system for all channels has its steps in its eigenvalues already.
    step = layer.log_dt.detach().cpu().double().exp() if system.batch_shape else 1.0
    discrete = system.discretize(step, layer.disc)
    if isinstance(discrete, DiagonalSystem):
        discrete = discrete.to_full()
        CA = discrete.C * discrete.Lambda[..., None, :]
    else:
        discrete = discrete.to_dense()
        CA = discrete.C @ discrete.A
    # z C (zI - A)^-1 B + D, docs/devdocs/simulate.md (1), written without the z
    return discrete.replace(C=CA, D=discrete.D + (discrete.C @ discrete.B).real, dt=1.0)


def _sizes(system: System, angles: Float64[Tensor, " k"]) -> Float64[Tensor, "channel k"]:
    """Norm of each output channel's response."""
    sizes = torch.linalg.vector_norm(system(torch.exp(1j * angles)), dim=-1)  # (*batch, k, output)
    return sizes[..., 0] if system.batch_shape else sizes.mT


def _near_poles(system: System) -> Float64[Tensor, " channel"]:
    """The largest response where the eigenvalues stand: a spike can be narrower than any grid."""
    if not isinstance(system, DiagonalSystem):
        return torch.zeros(len(system.C), dtype=torch.float64, device="cpu")  # they would cost an eig each
    if system.batch_shape:
        each = [_sizes(system[i : i + 1], Lambda.angle()) for i, Lambda in enumerate(system.Lambda)]
        return torch.cat(each).amax(-1)
    slowest = system.Lambda[system.Lambda.abs().argsort(descending=True)[:_FEW]]
    return _sizes(system, slowest.angle()).amax(-1)


def _row(system: System, channel: int) -> System:
    """The system of one output channel."""
    if system.batch_shape:
        return system[channel]
    return system.replace(C=system.C[channel : channel + 1], D=system.D[channel : channel + 1])


def _certified(channel: int, system: System, sizes: Float64[Tensor, " k"], angles: Float64[Tensor, " k"]) -> Peak:
    zero = torch.zeros(1, system.inputs, dtype=torch.float64, device="cpu")
    silence = DiagonalSystem(zero[0, :1], zero, zero[:, :1], dt=1.0)
    try:
        found = linf_distance(system, silence, rtol=_RTOL)
    except WellposedError:  # an eigenvalue on the unit circle to working precision, or too many needed
        return Peak(channel, sizes.max().item(), angles[sizes.argmax()].item() / (2 * math.pi), None)
    return Peak(channel, found.value, abs(found.frequency) / (2 * math.pi), found.upper)
