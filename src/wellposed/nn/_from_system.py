"""The numbers a layer starts with, read off a system."""

from __future__ import annotations

import torch
from jaxtyping import Complex128, Float64
from torch import Tensor

from wellposed._checks import positive_int
from wellposed.errors import ArgumentError, ShapeError, TimeDomainError
from wellposed.nn._initial import Modes
from wellposed.systems import DiagonalSystem


def channels_of(
    system: DiagonalSystem, d_model: int | None
) -> tuple[Modes, Complex128[Tensor, "1 channel mode"], Float64[Tensor, " channel"]]:
    """Modes, read-outs and skips for ``d_model`` channels."""
    if not isinstance(system, DiagonalSystem):
        raise ArgumentError(
            f"a diagonal layer starts from a DiagonalSystem, got {type(system).__name__}: system.diagonalized(ptd(A))"
        )
    if system.is_discrete:
        raise TimeDomainError("a layer has steps of its own: give a continuous system, and dt_min and dt_max")
    if system.inputs != 1 or system.outputs != 1 or len(system.batch_shape) > 1:
        raise ShapeError(
            f"one system a channel has one input and one output, in a batch of d_model or alone; got {system!r}"
        )
    channels = _channels(system, d_model)
    with torch.device("cpu"):
        parts = [part.to("cpu", torch.float64).to_pairs() for part in _each(system)]
        numbers = {(part.n_stored, part.n) for part in parts}
        if len(numbers) > 1:
            raise ShapeError(
                f"real eigenvalues differ in number: (modes, states) are {sorted(numbers)}; take one, sys[i]"
            )
        Lambda, B, C = (torch.stack(some) for some in zip(*map(_pairs_first, parts), strict=True))
        D = torch.stack([part.D[0, 0].real.double() for part in parts]).expand(channels)
        n = parts[0].n
        modes = Modes.read_off(Lambda if system.batch_shape else Lambda[0], B if system.batch_shape else B[0], n)
        return modes, C.expand(channels, -1)[None], D


def _channels(system: DiagonalSystem, d_model: int | None) -> int:
    if d_model is None and not system.batch_shape:
        raise ArgumentError("a single system does not say how many channels the layer has: give d_model")
    channels = positive_int(system.batch_shape[0] if d_model is None else d_model, "d_model")
    if system.batch_shape and channels != system.batch_shape[0]:
        raise ShapeError(
            f"d_model = {channels}, but the batch holds {system.batch_shape[0]} systems: leave d_model out"
        )
    return channels


def _pairs_first(part: DiagonalSystem) -> tuple[Tensor, Tensor, Tensor]:
    """Pairs, then real eigenvalues: a layer counts the modes of all its channels alike."""
    Lambda, B, C = (t.to(torch.complex128) for t in (part.Lambda, part.B[:, 0], part.C[0]))
    order = (Lambda.imag == 0).int().argsort(stable=True)
    return Lambda[order], B[order], C[order]


def _each(system: DiagonalSystem) -> list[DiagonalSystem]:
    return [system[i] for i in range(system.batch_shape[0])] if system.batch_shape else [system]
