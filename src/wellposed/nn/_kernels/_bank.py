"""Banks of discrete single-input single-output systems in real coordinates: what a layer hands to the kernels.

A bank is ``x_t = A x_{t-1} + B u_t, y_t = C x_t`` for every channel. Kernels need four things of it, and another
structure has to supply no more: columns ``A^t B``, rows ``C A^t``, the same bank at a coarser step, and a state
advanced by so many steps. Powers are computed in float64 from the phase and the decay of a single step, so that step
10^5 is as exact as step 1, and converted once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from wellposed.nn._kernels._scan import power_of_two, times

Discretisation = Literal["zoh", "bilinear"]
_FORGOTTEN = -1 + 2.0**-52


def wide(tensor: Tensor) -> Tensor:
    """In float64, where the device has it."""
    return tensor if tensor.device.type == "mps" else tensor.double()


class Bank(ABC):
    """Systems side by side, one a channel; complex states are stored as ``[Re, Im, Re, Im, ...]``."""

    @property
    @abstractmethod
    def states(self) -> int:
        """Real numbers in the state of one channel."""

    @property
    @abstractmethod
    def transition(self) -> Tensor:
        """``A`` as the scan takes it: a diagonal ``(channel, state)`` or matrices ``(channel, state, state)``."""

    @abstractmethod
    def columns(self, count: int) -> Float[Tensor, "channel state count"]:
        """``A^t B`` for t = 0 .. count - 1."""

    @abstractmethod
    def rows(self, count: int) -> Float[Tensor, "channel count state"]:
        """``C A^t`` for t = 0 .. count - 1."""

    def tables(self, count: int) -> tuple[Tensor, Tensor]:
        """``columns(count)`` and ``rows(count + 1)``, what a chunk of ``count`` steps needs."""
        return self.columns(count), self.rows(count + 1)

    @abstractmethod
    def every(self, steps: int) -> Bank:
        """The bank whose ``A`` is ``A^steps``."""

    @abstractmethod
    def advance(
        self, x: Float[Tensor, "channel batch state"], steps: Int[Tensor, " batch"], most: int
    ) -> Float[Tensor, "channel batch state"]:
        """``A^steps x``, another number of steps for each sequence, none above ``most``."""


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
class DiagonalBank(Bank):
    """Modes side by side; ``C`` counts every mode as often as the output does."""

    modes: Spectrum
    B: Float[Tensor, "channel mode 2"]
    C: Float[Tensor, "channel mode 2"]

    @property
    def states(self) -> int:
        """Real numbers in the state of one channel."""
        return 2 * self.B.shape[-2]

    @property
    def transition(self) -> Tensor:
        """The eigenvalues."""
        return self.modes.transition

    def columns(self, count: int) -> Float[Tensor, "channel state count"]:
        """``lambda^t B``."""
        return _product(self.modes.powers(count), self.B)

    def rows(self, count: int) -> Float[Tensor, "channel count state"]:
        """``Re(C lambda^t x)`` as a row for ``[Re x, Im x]``."""
        return _conjugate(_product(self.modes.powers(count), self.C)).mT

    def tables(self, count: int) -> tuple[Tensor, Tensor]:
        """Both from one table of powers."""
        powers = self.modes.powers(count + 1)
        return _product(powers[..., :count], self.B), _conjugate(_product(powers, self.C)).mT

    def every(self, steps: int) -> DiagonalBank:
        """The same modes, seen every so many steps."""
        return DiagonalBank(self.modes.every(steps), self.B, self.C)

    def advance(
        self, x: Float[Tensor, "channel batch state"], steps: Int[Tensor, " batch"], most: int
    ) -> Float[Tensor, "channel batch state"]:
        """``lambda^steps x``."""
        a, b = self.modes.after(steps).to(x.dtype).unbind(-1)
        re, im = x.unflatten(-1, (-1, 2)).unbind(-1)
        return torch.stack([a * re - b * im, a * im + b * re], -1).flatten(-2)


def _product(powers: Float[Tensor, "channel mode 2 count"], z: Float[Tensor, "channel mode 2"]) -> Tensor:
    """``lambda^t z``, as ``(channel, state, count)``."""
    (re, im), (a, b) = powers.unbind(2), (part[..., None] for part in z.unbind(-1))
    return torch.stack([re * a - im * b, re * b + im * a], 2).flatten(1, 2)


def _conjugate(z: Float[Tensor, "channel state count"]) -> Tensor:
    """``Re(z x)`` is the product of ``[Re z, -Im z]`` with ``[Re x, Im x]``."""
    re, im = z.unflatten(1, (-1, 2)).unbind(2)
    return torch.stack([re, -im], 2).flatten(1, 2)


@dataclass(frozen=True)
class DenseBank(Bank):
    """Any real matrices ``A``."""

    A: Float[Tensor, "channel state state"]
    B: Float[Tensor, "channel state"]
    C: Float[Tensor, "channel state"]

    @property
    def states(self) -> int:
        """Real numbers in the state of one channel."""
        return self.A.shape[-1]

    @property
    def transition(self) -> Tensor:
        """``A``."""
        return self.A

    def columns(self, count: int) -> Float[Tensor, "channel state count"]:
        """By doubling: ``[X, A^k X]``."""
        return _doubled(self.A, self.B, count)

    def rows(self, count: int) -> Float[Tensor, "channel count state"]:
        """By doubling, on the transposed side."""
        return _doubled(self.A.mT, self.C, count).mT

    def every(self, steps: int) -> DenseBank:
        """``A^steps``."""
        return DenseBank(torch.linalg.matrix_power(self.A, int(steps)), self.B, self.C)

    def advance(
        self, x: Float[Tensor, "channel batch state"], steps: Int[Tensor, " batch"], most: int
    ) -> Float[Tensor, "channel batch state"]:
        """By the binary digits of ``steps``."""
        power = self.A
        for bit in range(most.bit_length()):
            moved = times(power.to(x.dtype), x)
            x = torch.where((steps[:, None] >> bit & 1).bool(), moved, x)
            power = power_of_two(power, 1)
        return x


def _doubled(A: Tensor, b: Tensor, count: int) -> Tensor:
    X = b[..., None]
    while X.shape[-1] < count:
        X = torch.cat([X, A @ X], -1)
        A = A @ A
    return X[..., :count]


def diagonal_bank(
    real: Float[Tensor, "channel mode"],
    imag: Float[Tensor, "channel mode"],
    dt: Float[Tensor, "channel #mode"],
    B: Float[Tensor, "channel mode 2"],
    C: Float[Tensor, "channel mode 2"],
    method: Discretisation,
) -> DiagonalBank:
    """Modes ``real + i imag`` of continuous time, advanced by ``dt``."""
    decay, angle, factor = discretize(real, imag, dt, method)
    f_re, f_im = factor.unbind(-1)
    b_re, b_im = B.unbind(-1)
    B_bar = torch.stack([f_re * b_re - f_im * b_im, f_re * b_im + f_im * b_re], -1)
    return DiagonalBank(Spectrum(decay, angle), B_bar, C)


def discretize(
    real: Float[Tensor, "*shape"], imag: Float[Tensor, "*shape"], dt: Float[Tensor, "*#shape"], method: Discretisation
) -> tuple[Float[Tensor, "*shape"], Float[Tensor, "*shape"], Float[Tensor, "*shape 2"]]:
    """``log |lambda_bar|``, the phase of ``lambda_bar``, and the factor that makes ``B_bar`` of ``B``."""
    x, y = dt * real, dt * imag
    if method == "zoh":  # lambda_bar = exp(z), factor (exp(z) - 1) / lambda
        e = x.exp()
        re, im = x.expm1() - 2 * e * (y / 2).sin() ** 2, e * y.sin()
        size = real**2 + imag**2
        return x, y, torch.stack([(re * real + im * imag) / size, (im * real - re * imag) / size], -1)
    # lambda_bar = (1 + z/2) / (1 - z/2), factor dt / (1 - z/2)
    below = (1 - x / 2) ** 2 + (y / 2) ** 2
    # At z = -2 exactly lambda_bar is 0, of which there is no logarithm: a mode that forgets within one step.
    gone = (x == -2) & (y == 0)
    decay = torch.log1p(torch.where(gone, _FORGOTTEN, 2 * x / below)) / 2
    angle = torch.atan2(y, torch.where(gone, 1.0, 1 - (x**2 + y**2) / 4))
    return decay, angle, torch.stack([dt * (1 - x / 2) / below, dt * y / 2 / below], -1)
