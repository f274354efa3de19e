"""How far apart two systems are: the supremum of ||G1 - G2|| over the imaginary axis, with a certificate.

What a structure has to supply for it is in ``_resolvent``, the bound and the search in ``_linf_search``:
docs/devdocs/linf.md.
"""

from __future__ import annotations

import torch
from torch import Tensor

from wellposed._checks import number, positive_int
from wellposed.errors import ArgumentError, ShapeError, TimeDomainError, UnstableError
from wellposed.systems._base import System
from wellposed.systems._linf_search import LinfDistance, Search


def linf_distance(
    sys1: System,
    sys2: System,
    *,
    rtol: float = 1e-8,
    require_stable: bool = True,
    max_evaluations: int = 3_000_000,
) -> LinfDistance:
    """Supremum of the largest singular value of ``G1 - G2`` over the imaginary axis (discrete: the unit circle).

    The result is certified: ``value`` is attained at ``frequency``, and ``upper`` bounds the supremum, with
    ``upper <= value (1 + rtol)`` up to the rounding error of the two responses, and to the spacing of floats where a
    pole is so near to the axis that few of them lie under its peak. For stable systems this is the largest
    factor by which the outputs can differ in L2 for inputs of norm 1. With ``require_stable=False`` the
    supremum is computed for unstable systems too, as long as no pole lies on the axis.

    >>> from wellposed.systems import s4, s4d
    >>> distance = linf_distance(s4(32), s4d(32))
    >>> round(distance.value, 6), round(distance.frequency, 4)
    (0.450517, 325.4263)
    """
    _check_pair(sys1, sys2, number(rtol, "rtol"))
    max_evaluations = positive_int(max_evaluations, "max_evaluations")
    for name, system in (("sys1", sys1), ("sys2", sys2)):
        if require_stable:
            _check_stable(system, name)
        else:
            _check_off_axis(system, name)
    return Search(sys1, sys2, rtol, max_evaluations).run()


def _check_pair(sys1: System, sys2: System, rtol: float) -> None:
    for name, system in (("sys1", sys1), ("sys2", sys2)):
        if not isinstance(system, System):
            raise ArgumentError(f"{name} must be a system of wellposed.systems, got {system!r}")
    if sys1.is_discrete != sys2.is_discrete:
        kinds = ["discrete" if s.is_discrete else "continuous" for s in (sys1, sys2)]
        raise TimeDomainError(f"sys1 is {kinds[0]} and sys2 is {kinds[1]}: discretize one of them first")
    if sys1.dt is not None and sys2.dt is not None and not _same_step(sys1.dt, sys2.dt):
        raise TimeDomainError(f"the time steps differ: {sys1.dt.tolist()} and {sys2.dt.tolist()}")
    if sys1.batch_shape or sys2.batch_shape:
        shapes = tuple(sys1.batch_shape), tuple(sys2.batch_shape)
        raise ShapeError(f"one pair of systems at a time, got batches {shapes}: take one with sys[i]")
    if (sys1.outputs, sys1.inputs) != (sys2.outputs, sys2.inputs):
        raise ShapeError(
            f"sys1 has {sys1.outputs} outputs and {sys1.inputs} inputs, sys2 {sys2.outputs} and {sys2.inputs}"
        )
    if not 1e-12 <= rtol < 1:
        raise ArgumentError(f"rtol must lie between 1e-12 and 1, got {rtol:g}")


def _same_step(dt1: Tensor, dt2: Tensor) -> bool:
    """Equal up to single precision, in which one of the two may have been stored."""
    a, b = dt1.cpu().double(), dt2.cpu().double()
    return a.shape == b.shape and bool(torch.isclose(a, b, rtol=1e-6, atol=0).all())


def _check_stable(system: System, name: str) -> None:
    if system._surely_stable():
        return
    margin = system.stability_margin().item()
    if margin <= 0:
        what = "largest |pole|" if system.is_discrete else "largest real part of a pole"
        value = 1 - margin if system.is_discrete else -margin
        raise UnstableError(
            f"{name} is not stable: {what} = {value:.6g}; pass require_stable=False to compare responses anyway"
        )


def _check_off_axis(system: System, name: str) -> None:
    poles = system.poles()
    distance = (poles.abs() - 1 if system.is_discrete else poles.real).abs()
    on = distance <= 4e-16 * poles.abs()
    if bool(on.any()):
        axis = "unit circle" if system.is_discrete else "imaginary axis"
        raise UnstableError(
            f"{name} has a pole on the {axis} to working precision, {poles[on][0].item():.9g}: the supremum is infinite"
        )
