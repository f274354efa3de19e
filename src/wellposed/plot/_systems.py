"""Systems: over frequency, over time, and where S4D spikes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex

import torch
from jaxtyping import Float64
from torch import Tensor

from wellposed._checks import as_tensor, index_in, positive_int
from wellposed.errors import ArgumentError, ShapeError, TimeDomainError, UnknownNameError
from wellposed.plot._style import LINES, S4, S4D, axes, named
from wellposed.systems import System, closed_forms
from wellposed.systems import spikes as find_spikes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_POINTS = 1500
_AROUND = (0.0, 0.3, 0.7, 1.5, 4.0)  # widths of a mode: its peak needs points of its own


def bode(
    systems: Any,
    omega: Any = None,
    *,
    part: Literal["magnitude", "phase"] = "magnitude",
    ax: Axes | None = None,
) -> Axes:
    """Magnitude (or phase) of frequency responses: of a system with one input and output, or of several by name.

    ``omega`` is chosen around the poles if it is not given, with points of its own for every narrow peak. In place of a
    system a name may have its responses at ``omega``, computed elsewhere.

    ``bode({"S4": s4(32), "S4D": s4d(32)})`` shows what S4D makes of HiPPO.
    """
    if part not in ("magnitude", "phase"):
        raise UnknownNameError("part", part, ("magnitude", "phase"))
    found = named(systems, "")
    if omega is None:
        for system in found.values():
            if not isinstance(system, System):
                raise ArgumentError(
                    f"systems are drawn, or responses with their omega: {type(system).__name__} without omega"
                )
        omega = _frequencies(list(found.values()))
    omega = torch.as_tensor(omega, dtype=torch.float64)
    ax = axes(ax)
    for (name, system), style in zip(found.items(), LINES, strict=False):
        G = (
            system.frequency_response(omega)
            if isinstance(system, System)
            else as_tensor(system, name or "the response")
        )
        _check_curve(G, len(omega), name)
        values = G.abs() if part == "magnitude" else torch.rad2deg(G.angle())
        ax.plot(omega.numpy(), values.detach().cpu().numpy(), label=name or None, **style)
    ax.set_xscale("log")
    ax.set_xlabel("frequency in rad/s")
    if part == "magnitude":
        ax.set_yscale("log")
        ax.set_ylabel("|G|")
    else:
        ax.set(ylabel="phase in degrees", yticks=[-180, -90, 0, 90, 180])
    _legend(ax, found)
    return ax


def _check_curve(values: Tensor, length: int, name: str) -> None:
    """One curve a name: matplotlib's own words for several channels tell nobody what to do."""
    if values.shape != (length,):
        whose = f" of {name!r}" if name else ""
        raise ShapeError(
            f"one input and one output are drawn, {length} values: those{whose} have shape {tuple(values.shape)}; "
            "take one row of C and one column of B"
        )


def _frequencies(systems: list[System]) -> Float64[Tensor, " k"]:
    """From well below the slowest pole to well above the fastest, and close to those near the axis."""
    poles = torch.cat([_continuous_poles(system) for system in systems])
    sizes = poles.abs()[poles.abs() > 0]
    if not len(sizes):
        sizes = torch.ones(1, dtype=torch.float64)
    low, high = 0.1 * sizes.min().item(), 10 * sizes.max().item()
    for system in systems:
        if system.dt is not None:
            high = min(high, math.pi / system.dt.max().item())
    even = torch.logspace(math.log10(low), math.log10(high), _POINTS, dtype=torch.float64)
    narrow = poles[(poles.imag > 0) & (poles.real.abs() < 0.3 * poles.imag)]
    offsets = torch.tensor([sign * each for each in _AROUND for sign in (-1, 1)], dtype=torch.float64)
    peaks = (narrow.imag[:, None] + narrow.real.abs()[:, None] * offsets).flatten()
    return torch.cat([even, peaks[(peaks > low) & (peaks < high)]]).unique()


def _continuous_poles(system: System) -> Tensor:
    poles = system.poles().detach().cpu().to(torch.complex128).flatten()
    if system.dt is None:
        return poles
    return poles[poles != 0].log() / system.dt.min().item()


def kernel(systems: Any, length: SupportsIndex = 1000, *, dt: float | None = None, ax: Axes | None = None) -> Axes:
    """The convolution kernel, which is the answer to a unit impulse: of a system, or of several by name.

    Continuous systems are turned discrete with step ``dt`` by the bilinear rule, and their kernels divided by it, so
    that kernels of different steps can be compared.
    """
    found, ax = named(systems, ""), axes(ax)
    length = positive_int(length, "length")
    for (name, system), style in zip(found.items(), LINES, strict=False):
        discrete, step = _stepped(system, dt)
        K = discrete.impulse_response(length).real.detach().cpu() / (step if dt else 1.0)
        _check_curve(K, length, name)
        ax.plot((step * torch.arange(length)).numpy(), K.numpy(), label=name or None, **style)
    ax.set(xlabel="time", ylabel="kernel")
    _legend(ax, found)
    return ax


def _stepped(system: Any, dt: float | None) -> tuple[System, float]:
    """The system in discrete time, and its step."""
    if not isinstance(system, System):
        raise ArgumentError(f"systems have kernels, {type(system).__name__} is none")
    if system.dt is not None:
        step = system.dt.max().item()
        if dt is not None:
            raise TimeDomainError(f"this system has a step already, {step:g}: drop dt")
        return system, step
    if dt is None:
        raise TimeDomainError("this system is continuous: give dt, the step of the kernel")
    return system.discretize(dt, "bilinear"), float(dt)


def spikes(n: SupportsIndex, l: SupportsIndex = 1, *, ax: Axes | None = None) -> Axes:
    """How far S4D is from S4 over frequency, ``|G_Diag - G_DPLR|`` for HiPPO-LegS, with every spike marked."""
    n = positive_int(n, "n")
    l = index_in(l, "l", n)
    found, ax = find_spikes(n, l), axes(ax)
    even = torch.logspace(-1, math.log10(10 * max(n, 4) ** 2), _POINTS, dtype=torch.float64)
    offsets = torch.tensor([-4.0, -1.5, -0.7, -0.3, 0.0, 0.3, 0.7, 1.5, 4.0], dtype=torch.float64)
    near = (found.frequency[:, None] + offsets).flatten()
    omega = torch.cat([even, near[near > 0.1]]).unique()
    ax.loglog(omega.numpy(), closed_forms.G_difference(1j * omega, n, l=l).abs().numpy(), color=S4D, lw=1.2)
    ax.plot(found.frequency.numpy(), found.height.numpy(), "o", color=S4, ms=4, label=f"{len(found)} spikes")
    ax.set(xlabel="frequency in rad/s", ylabel="|S4D − S4|")
    ax.legend()
    return ax


def _legend(ax: Axes, found: Mapping[str, Any]) -> None:
    if any(found):
        ax.legend()
