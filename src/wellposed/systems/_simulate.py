"""Systems as the kernels take them: in real numbers, with one axis of systems and one of sequences.

A complex coordinate becomes two real ones, ``[Re, Im]`` in turn: of states, and of inputs and outputs where these are
complex. docs/devdocs/simulate.md
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from wellposed.kernels.fft import kernel_values
from wellposed.kernels.powers import PoweredRecurrence
from wellposed.kernels.scan import times
from wellposed.kernels.tables import simulate as run

if TYPE_CHECKING:  # it builds on this file
    from wellposed.systems._base import System

_LOOK = 64  # steps after which a simulation looks whether anything is still finite


def simulate(
    system: System, u: Shaped[Tensor, "*_ length m"], state: Shaped[Tensor, "*_ n"] | None, *, delayed: bool
) -> tuple[Shaped[Tensor, "*batch length p"], Shaped[Tensor, "*batch n"]]:
    """Outputs for the inputs ``u``, and the state after the last of them."""
    form = RealForm.of(system, u, state)
    axes = BatchAxes.of(
        tuple(system.batch_shape), tuple(u.shape[:-2]), () if state is None else tuple(state.shape[:-1])
    )
    signal = axes.split((_in_pairs(u) if u.is_complex() else u).to(form.dtype), 2).flatten(2)
    if state is None:
        x = signal.new_zeros(*signal.shape[:2], form.recurrence.states)
    else:
        x = axes.split((_in_pairs(state) if form.in_pairs else state).to(form.dtype), 1)
    y, end = run(form.recurrence, signal, x, form.D, delayed=delayed)
    if not (bool(torch.isfinite(y.detach()).all()) and bool(torch.isfinite(end.detach()).all())):
        y, end = _step_by_step(form, signal, x, y, delayed=delayed)
    y = y.unflatten(2, (u.shape[-2], -1))
    y = _from_pairs(y) if form.complex_output else y
    if form.in_pairs:
        end = _from_pairs(end) if form.complex_state else end[..., ::2]
    return axes.joined(y), axes.joined(end)


def _step_by_step(
    form: RealForm, u: Tensor, x: Tensor, y: Tensor, *, delayed: bool
) -> tuple[Float[Tensor, "system sequence length_output"], Float[Tensor, "system sequence n"]]:
    """The recurrence itself, where powers of ``A`` are beyond floats: a state of zero stays zero under any of them.

    Once all states are beyond floats too, the rest is what chunks made of it, ``y``: not finite either.
    """
    A, B, C, D = form.recurrence.A, form.recurrence.B, form.recurrence.C[0], form.D
    steps, length = u.unflatten(2, (-1, B.shape[-1])), u.shape[2] // B.shape[-1]
    out = []
    for t in range(length):
        now = steps[:, :, t]
        before = x
        x = times(A, x) + now @ B.mT
        out.append((before if delayed else x) @ C.mT + now @ D)
        if t % _LOOK == _LOOK - 1 and not bool(torch.isfinite(x.detach()).all(-1).any()):
            break
    done = torch.cat(out, -1)
    return torch.cat([done, y[..., done.shape[-1] :]], -1), x


def _impulses(form: RealForm, K: Tensor) -> Float[Tensor, "system length output input"]:
    """The kernel step by step, one input at a time."""
    count, length, p, m = K.shape
    u = torch.eye(m, dtype=form.dtype, device=K.device).expand(count, m, m)
    u = torch.nn.functional.pad(u, (0, (length - 1) * m))
    x = u.new_zeros(count, m, form.recurrence.states)
    silent = dataclasses.replace(form, D=torch.zeros_like(form.D))
    y, _ = _step_by_step(silent, u, x, K.permute(0, 3, 1, 2).flatten(2), delayed=False)
    return y.unflatten(2, (length, p)).permute(0, 2, 3, 1)


def markov_parameters(system: System, length: int) -> Shaped[Tensor, "*batch length p m"]:
    """``C A^t B`` for ``t < length``."""
    form = RealForm.of(system, None, None)
    K = kernel_values(form.recurrence, 0, length, form.dtype)
    if not bool(torch.isfinite(K.detach()).all()):
        K = _impulses(form, K)
    K = _from_pairs(K.mT).mT if form.complex_output else K
    return K.reshape(*system.batch_shape, *K.shape[1:])


@dataclass(frozen=True)
class RealForm:
    """The real matrices of a batch of systems, and which of its vectors are complex."""

    recurrence: PoweredRecurrence
    D: Float[Tensor, "system m p"]
    complex_state: bool
    complex_output: bool
    in_pairs: bool
    """Whether the real state holds ``[Re, Im]``: that of a diagonal matrix always does."""
    dtype: torch.dtype

    @classmethod
    def of(cls, system: System, u: Tensor | None, state: Tensor | None) -> RealForm:
        """Of a system that meets these inputs and this state."""
        A, B, C, D = system._state_matrix(), system.B, system._reading(), system.D
        moving = [t for t in (A, B, u, state) if t is not None]
        dtype = moving[0].real.dtype
        for t in moving:
            dtype = torch.promote_types(dtype, t.real.dtype)
        complex_input = u is not None and u.is_complex()
        complex_state = any(t.is_complex() for t in moving)
        complex_output = system._takes_complex() and (complex_state or C.is_complex() or D.is_complex())
        diagonal = A.ndim < B.ndim
        pairs = diagonal or complex_state
        parts = (
            _in_pairs(A) if diagonal else _in_reals(A, pairs, pairs),
            _in_reals(B, pairs, complex_input),
            _in_reals(C, complex_output, pairs),
            _in_reals(D, complex_output, complex_input).mT,
        )
        count = system.batch_shape.numel()
        own = 1 if diagonal else 2
        A, B, C, D = (t.to(dtype).reshape(count, *t.shape[-k:]) for t, k in zip(parts, (own, 2, 2, 2), strict=True))
        return cls(PoweredRecurrence(A, B, C[None]), D, complex_state, complex_output, pairs, dtype)


def _in_reals(M: Shaped[Tensor, "*batch r c"], rows: bool, columns: bool) -> Float[Tensor, "*batch real_r real_c"]:
    """A matrix between real vectors that hold ``[Re, Im]`` where ``rows`` and ``columns`` are complex."""
    M = torch.stack([M, 1j * M], -1).flatten(-2) if columns else M
    return _in_pairs(M.mT).mT if rows else M.real


def _in_pairs(t: Shaped[Tensor, "*batch n"]) -> Float[Tensor, "*batch real_n"]:
    t = t.to(t.dtype.to_complex())
    return torch.stack([t.real, t.imag], -1).flatten(-2)


def _from_pairs(t: Float[Tensor, "*batch real_n"]) -> Shaped[Tensor, "*batch n"]:
    return torch.complex(t[..., ::2], t[..., 1::2])


@dataclass(frozen=True)
class BatchAxes:
    """Batch axes along which systems differ come first; along the others one system meets several sequences."""

    shape: tuple[int, ...]
    order: tuple[int, ...]
    systems: int
    """How many axes come first."""

    @classmethod
    def of(cls, systems: tuple[int, ...], *others: tuple[int, ...]) -> BatchAxes:
        """Of batches that broadcast against each other."""
        shape = np.broadcast_shapes(systems, *others)  # torch's own loads sympy, which takes a second
        own = (1,) * (len(shape) - len(systems)) + systems
        first = [k for k, size in enumerate(own) if size != 1]
        return cls(shape, (*first, *(k for k, size in enumerate(own) if size == 1)), len(first))

    def _sizes(self) -> list[int]:
        return [self.shape[k] for k in self.order]

    def split(self, t: Shaped[Tensor, "*batch tail"], own: int) -> Shaped[Tensor, "system sequence *tail"]:
        """Two axes in place of all batch axes; the last ``own`` ones are none."""
        tail = t.shape[t.ndim - own :]
        t = t.expand(*self.shape, *tail).permute(*self.order, *range(len(self.shape), len(self.shape) + own))
        sizes = self._sizes()
        return t.reshape(int(np.prod(sizes[: self.systems])), int(np.prod(sizes[self.systems :])), *tail)

    def joined(self, t: Shaped[Tensor, "system sequence *tail"]) -> Shaped[Tensor, "*batch tail"]:
        """The batch axes again."""
        t = t.reshape(*self._sizes(), *t.shape[2:])
        axes = len(self.order)
        return t.permute(*(self.order.index(k) for k in range(axes)), *range(axes, t.ndim))
