"""To and from ``scipy.signal`` and ``control``.

Both are handed real matrices only: ``control`` drops imaginary parts without a word.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from wellposed.errors import ArgumentError, MissingExtraError, ShapeError, TimeDomainError
from wellposed.systems._base import System
from wellposed.systems._dense import DenseSystem

if TYPE_CHECKING:
    import control
    import scipy.signal

__all__ = ["from_control", "from_scipy", "to_control", "to_scipy"]


def to_scipy(system: System) -> scipy.signal.StateSpace:
    """The system as ``scipy.signal.StateSpace``, in real coordinates; raises where its response is not real."""
    from scipy.signal import StateSpace

    parts, dt = _real_parts(system)
    return StateSpace(*parts) if dt is None else StateSpace(*parts, dt=dt)


def from_scipy(system: Any) -> DenseSystem:
    """The dense system of anything ``scipy.signal`` can write as a ``StateSpace``."""
    ss = system.to_ss() if hasattr(system, "to_ss") else system
    if not all(hasattr(ss, part) for part in ("A", "B", "C", "D", "dt")):
        raise ArgumentError(f"from_scipy takes a system of scipy.signal, got {system!r}")
    return _from_parts(ss.A, ss.B, ss.C, ss.D, ss.dt)


def to_control(system: System) -> control.StateSpace:
    """The system as ``control.StateSpace``, in real coordinates; raises where its response is not real."""
    ss = _control().ss
    parts, dt = _real_parts(system)
    return ss(*parts, 0 if dt is None else dt)


def from_control(system: Any) -> DenseSystem:
    """The dense system of anything ``control`` can write as a ``StateSpace``."""
    try:
        ss = _control().ss(system)
    except TypeError:
        raise ArgumentError(f"from_control takes a system of control, got {system!r}") from None
    dt = ss.dt
    return _from_parts(ss.A, ss.B, ss.C, ss.D, None if dt == 0 else dt)


def _control() -> Any:
    try:
        import control
    except ImportError:
        raise MissingExtraError("control", "control") from None
    return control


def _real_parts(system: System) -> tuple[list[np.ndarray], float | None]:
    if not isinstance(system, System):
        raise ArgumentError(f"a system of wellposed.systems is wanted, got {system!r}")
    if system.batch_shape:
        raise ShapeError(f"one system at a time, got a batch {tuple(system.batch_shape)}: take one with sys[i]")
    real = system.to_real()
    dt = None if real.dt is None else real.dt.item()
    return [t.detach().cpu().to(torch.float64).numpy() for t in (real.A, real.B, real.C, real.D)], dt


def _from_parts(A: Any, B: Any, C: Any, D: Any, dt: Any) -> DenseSystem:
    if dt is True:
        raise TimeDomainError("this system is discrete with an unspecified time step (dt = True): give it a number")
    B, C, D = np.atleast_2d(B), np.atleast_2d(C), np.atleast_2d(D)
    if B.shape[1] == C.shape[0] == 1:
        return DenseSystem(A, B[:, 0], C[0], D[0, 0], dt=dt)
    return DenseSystem(A, B, C, D, dt=dt)
