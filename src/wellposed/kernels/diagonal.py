"""Diagonal recurrences, one a channel: S4D and S4-PTD.

Powers are computed in float64 from the phase and the decay of a single step, so that step 10^5 is as exact as step 1,
and converted once.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from wellposed.kernels.discretize import Discretisation, complex_product, discretize
from wellposed.kernels.precision import as_float64
from wellposed.kernels.recurrence import Recurrence


@dataclass(frozen=True)
class DiagonalParameters:
    """Diagonal systems of continuous time as a layer stores them: ``lambda = -exp(A_log_real) + i A_imag``.

    A backend may work from these directly; the others ask for the recurrence. Channels take the systems in turn.
    """

    A_log_real: Float[Tensor, "system mode"]
    A_imag: Float[Tensor, "system mode"]
    B: Float[Tensor, "system mode 2"]
    C: Float[Tensor, "direction channel mode 2"]
    log_dt: Float[Tensor, " channel"]
    weight: Float[Tensor, " mode"]
    """How often a mode counts in the output: 2 for one of a conjugate pair, 1 for a real eigenvalue."""
    disc: Discretisation

    def per_channel(self, parameter: Tensor) -> Tensor:
        """A parameter of the systems written out, one a channel, in float64."""
        copies = self.log_dt.shape[0] // parameter.shape[0]
        return as_float64(parameter).repeat(copies, *[1] * (parameter.ndim - 1))

    def discretize(self) -> DiagonalRecurrence:
        """The modes of every channel in discrete time."""
        real, imag = -self.per_channel(self.A_log_real).exp(), self.per_channel(self.A_imag)
        modes = discretize(real, imag, as_float64(self.log_dt).exp()[:, None], self.disc)
        B_bar = complex_product(modes.gain, self.per_channel(self.B))
        C = as_float64(self.C) * as_float64(self.weight)[:, None]
        return DiagonalRecurrence(Spectrum(modes.decay, modes.angle), B_bar, C)


@dataclass(frozen=True)
class Spectrum:
    """Modes ``exp(decay + i angle)``, and what they become after any number of steps."""

    decay: Float[Tensor, "channel mode"]
    angle: Float[Tensor, "channel mode"]

    @property
    def transition(self) -> Tensor:
        """Real and imaginary part of every eigenvalue in turn."""
        return self.powers(2)[..., 1].flatten(1)

    def powers(self, count: int) -> Float[Tensor, "channel mode 2 count"]:
        """``lambda^t`` for t = 0 .. count - 1."""
        t = torch.arange(count, dtype=self.decay.dtype, device=self.decay.device)
        return self._after(self.decay[..., None] * t, self.angle[..., None] * t, 2)

    def _after(self, log_size: Tensor, phase: Tensor, dim: int) -> Tensor:
        # A sine with its argument moved is a cosine, and some runtimes have no cosine in float64.
        size = log_size.exp()
        return torch.stack([size * (phase + torch.pi / 2).sin(), size * phase.sin()], dim)

    def every(self, steps: int) -> Spectrum:
        """The same modes, seen every so many steps."""
        return Spectrum(steps * self.decay, steps * self.angle)

    def after(self, steps: Int[Tensor, " batch"]) -> Float[Tensor, "channel batch mode 2"]:
        """``lambda^steps``, another number of steps for each sequence."""
        t = steps[:, None].to(self.decay.dtype)
        return self._after(self.decay[:, None] * t, self.angle[:, None] * t, -1)


@dataclass(frozen=True)
class DiagonalRecurrence(Recurrence):
    """Modes side by side; ``C`` counts every mode as often as the output does."""

    modes: Spectrum
    B: Float[Tensor, "channel mode 2"]
    C: Float[Tensor, "direction channel mode 2"]

    @property
    def states(self) -> int:
        """Real numbers in the state of one channel."""
        return 2 * self.B.shape[-2]

    @property
    def directions(self) -> int:
        """As many as there are read-outs."""
        return self.C.shape[0]

    @property
    def transition(self) -> Tensor:
        """The eigenvalues."""
        return self.modes.transition

    def columns(self, count: int) -> Float[Tensor, "channel state count"]:
        """``lambda^t B``."""
        return _product(self.modes.powers(count), self.B)

    def rows(self, count: int, direction: int = 0) -> Float[Tensor, "channel count state"]:
        """``Re(C lambda^t x)`` as a row for ``[Re x, Im x]``."""
        return _conjugate(_product(self.modes.powers(count), self.C[direction])).mT

    def tables(self, count: int) -> tuple[Tensor, list[Tensor]]:
        """All from one table of powers."""
        powers = self.modes.powers(count + 1)
        rows = [_conjugate(_product(powers, C)).mT for C in self.C]
        return _product(powers[..., :count], self.B), rows

    def every(self, steps: int) -> DiagonalRecurrence:
        """The same modes, seen every so many steps."""
        return DiagonalRecurrence(self.modes.every(steps), self.B, self.C)

    def advance(
        self, x: Float[Tensor, "channel batch state"], steps: Int[Tensor, " batch"], most: int
    ) -> Float[Tensor, "channel batch state"]:
        """``lambda^steps x``."""
        moved = complex_product(self.modes.after(steps).to(x.dtype), x.unflatten(-1, (-1, 2)))
        return moved.flatten(-2)


def _product(powers: Float[Tensor, "channel mode 2 count"], z: Float[Tensor, "channel mode 2"]) -> Tensor:
    """``lambda^t z``, as ``(channel, state, count)``."""
    (re, im), (a, b) = powers.unbind(2), (part[..., None] for part in z.unbind(-1))
    return torch.stack([re * a - im * b, re * b + im * a], 2).flatten(1, 2)


def _conjugate(z: Float[Tensor, "channel state count"]) -> Tensor:
    """``Re(z x)`` is the product of ``[Re z, -Im z]`` with ``[Re x, Im x]``."""
    re, im = z.unflatten(1, (-1, 2)).unbind(2)
    return torch.stack([re, -im], 2).flatten(1, 2)
