"""The backend ``"triton"``: kernels of our own on a GPU. docs/devdocs/gpu.md"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from wellposed.kernels import chunks as reference
from wellposed.kernels.device import exporting, has_triton, lie_beside, transformed
from wellposed.kernels.diagonal import DiagonalParameters
from wellposed.kernels.low_rank import LowRankParameters
from wellposed.kernels.shared import SharedParameters
from wellposed.kernels.work import Output, Work


def supports(work: Work) -> bool:
    """Sequences in float32 or bfloat16 on a GPU, with states of a size that its multiprocessors hold."""
    if exporting() or not has_triton(work.u):
        return False
    s: Any = work.system
    if isinstance(s, DiagonalParameters | LowRankParameters | SharedParameters):
        given = (t for t in (work.D, work.state) if t is not None)
        if not lie_beside(work.u, s.A_log_real, s.A_imag, s.B, s.C, s.log_dt, s.weight, *given):
            return False
        if s.weight.requires_grad:  # how often a mode counts, for which kernels find no gradient
            return False
    return _kernels(work).supports(work)


def run(work: Work) -> Output:
    """Outputs, and the last state where it is wanted."""
    if transformed():  # torch.func looks through plain operations only
        y, state = reference.run(replace(work, u=work.u.float()))
        return y.to(work.u.dtype), state
    return _kernels(work).run(work)


def _kernels(work: Work) -> Any:
    """The module for this kind of system; Triton is imported here, and takes a second."""
    if isinstance(work.system, SharedParameters):
        from wellposed.kernels.gpu import shared

        return shared
    from wellposed.kernels.gpu import chunks

    return chunks
