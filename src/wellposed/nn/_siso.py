"""Layers with one system a channel: what S4, S4D, S4-PTD and Liquid-S4 share."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Unpack

import torch
from torch import Tensor, nn

from wellposed._checks import finite, positive_int
from wellposed.errors import ArgumentError, ShapeError
from wellposed.nn._initial import Modes
from wellposed.nn._kernels import Bank, run_convolution, run_scan, times, wide
from wellposed.nn._lengths import Lengths
from wellposed.nn._state_space import Draw, Options, StateSpaceLayer, Timing


class SISOOptions(Options, total=False):
    """What the layers with a system a channel take besides."""

    n_ssm: int | None
    """How many systems the channels share in turn; one each unless given."""
    C_init: str | Tensor
    """``"normal"``, or real read-outs in the coordinates of ``A``: ``(n,)``, ``(d_model, n)`` or one a direction."""


class SISOLayer(StateSpaceLayer):
    """A system of ``d_state`` states for every channel, each with its own step ``dt``."""

    def __init__(
        self,
        d_model: int,
        modes: Modes,
        *,
        n_ssm: int | None = None,
        C_init: str | Tensor = "normal",
        seed: int | None = None,
        device: Any = None,
        dtype: torch.dtype | None = None,
        **timing: Unpack[Timing],
    ) -> None:
        draw = Draw(seed, device, dtype)
        super().__init__(d_model, modes, draw, steps=d_model, **timing)
        self.n_ssm = d_model if n_ssm is None else positive_int(n_ssm, "n_ssm")
        if d_model % self.n_ssm:
            raise ArgumentError(f"n_ssm = {self.n_ssm} must divide d_model = {d_model}")

        def shared(value: Tensor) -> nn.Parameter:
            return draw.parameter(value.expand(self.n_ssm, *value.shape))

        self.A_log_real = shared((-modes.Lambda.real).log())
        self.A_imag = shared(modes.Lambda.imag)
        self.B = shared(modes.B)
        self.C = draw.parameter(self._draw_C(C_init, draw).to(modes.V.dtype) @ modes.V)
        self.D = draw.parameter(draw.normal(d_model))
        if modes.P is not None:
            self.P = shared(modes.P)

    def _draw_C(self, C_init: str | Tensor, draw: Draw) -> Tensor:
        """Read-outs in the coordinates of A: standard normal, or as given."""
        shape = (2 if self.bidirectional else 1, self.d_model, self.d_state)
        if isinstance(C_init, Tensor):
            if C_init.is_complex() or C_init.shape not in (shape[2:], shape[1:], shape):
                raise ShapeError(
                    f"C_init must be real, of shape {shape[2:]}, {shape[1:]} or {shape}; got {tuple(C_init.shape)}"
                )
            return finite(C_init.to("cpu", torch.float64), "C_init").expand(shape)
        if C_init != "normal":
            raise ArgumentError(f"C_init is 'normal' or a tensor, got {C_init!r:.60}")
        return draw.normal(*shape)

    @property
    def state_shape(self) -> tuple[int, ...]:
        """Real numbers: two for every stored mode of every channel."""
        return self.d_model, 2 * self.count.shape[-1]

    def _repeated(self, parameter: Tensor) -> Tensor:
        """Shared systems written out, one a channel, in float64."""
        copies = self.d_model // self.n_ssm
        return wide(parameter).repeat(copies, *[1] * (parameter.ndim - 1))

    def _C(self, direction: int) -> Tensor:
        """Read-out of one direction, every mode as often as it counts."""
        return wide(self.C[direction]) * wide(self.count)[:, None]

    @abstractmethod
    def bank(self, direction: int = 0) -> Bank:
        """The systems in discrete time and real coordinates; direction 1 reads backwards."""

    def _run(self, bank: Bank, u: Tensor, state: Tensor | None, D: Tensor | None) -> tuple[Tensor, Tensor]:
        return (run_convolution if self._convolves(u) else run_scan)(bank, u, state, D=D)

    def _filter(self, u: Tensor, direction: int, state: Tensor | None) -> tuple[Tensor, Tensor]:
        """All systems of one direction, the forward one with the skip; arguments and results are ``(batch, ...)``."""
        x = None if state is None else state.transpose(0, 1)
        y, last = self._run(self.bank(direction), u.permute(2, 0, 1), x, self.D if direction == 0 else None)
        return y.permute(1, 2, 0), last.transpose(0, 1)

    def _sequence(
        self, u: Tensor, lengths: Lengths | None, state: Tensor | None, want_state: bool
    ) -> tuple[Tensor, Tensor | None]:
        y, last = self._filter(u, 0, state)
        if self.bidirectional:
            flipped = u.flip(1) if lengths is None else lengths.reverse(u)
            back, _ = self._filter(flipped, 1, None)
            y = y + (back.flip(1) if lengths is None else lengths.reverse(back))
        if want_state and lengths is not None:
            last = self._state_at(u, lengths, state)
        return y, last

    def _state_at(self, u: Tensor, lengths: Lengths, state: Tensor | None) -> Tensor:
        """The state after each sequence's own last step: zeros in front change nothing but an old state."""
        _, last = self._filter(lengths.to_the_right(u), 0, None)
        if state is None:
            return last
        return last + self.bank().advance(state.transpose(0, 1), lengths.values, lengths.size).transpose(0, 1)

    def _constants(self) -> tuple[Tensor, ...]:
        """What a step needs of the parameters: ``A, B, C, D``."""
        bank, dtype = self.bank(), self.compute_dtype
        return bank.transition.to(dtype), bank.columns(1)[..., 0].to(dtype), bank.rows(1)[:, 0].to(dtype), self.D

    def _advance(self, constants: tuple[Tensor, ...], u: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        A, B, C, D = constants
        x = times(A, state.transpose(0, 1)).transpose(0, 1) + u[..., None] * B
        return (x * C).sum(-1) + D * u, x
