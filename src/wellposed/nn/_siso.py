"""Layers with one system a channel: what S4, S4D, S4-PTD and Liquid-S4 share."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from wellposed._checks import finite, positive_int
from wellposed.errors import ArgumentError, ShapeError, UnknownNameError
from wellposed.nn._initial import Modes
from wellposed.nn._kernels import Bank, Discretisation, run_convolution, run_scan, times, wide
from wellposed.nn._layer import Mode, SequenceLayer
from wellposed.nn._lengths import Lengths


def pairs_of(z: Tensor) -> Tensor:
    """Complex numbers as real pairs."""
    return torch.view_as_real(z.resolve_conj()).clone()


def check_dt(dt_min: float, dt_max: float) -> None:
    """Both positive and in order."""
    if not all(isinstance(dt, float | int) for dt in (dt_min, dt_max)) or not 0 < dt_min <= dt_max < math.inf:
        raise ArgumentError(f"need 0 < dt_min <= dt_max, got dt_min = {dt_min}, dt_max = {dt_max}")


def random_log_dt(count: int, dt_min: float, dt_max: float, generator: torch.Generator | None) -> Tensor:
    """Logarithms of steps, uniform between the bounds."""
    low, high = math.log(dt_min), math.log(dt_max)
    return low + (high - low) * torch.rand(count, dtype=torch.float64, generator=generator, device="cpu")


def generator_of(seed: int | None) -> torch.Generator | None:
    """A generator of its own for a seed; without one, PyTorch's."""
    if seed is None:
        return None
    if not isinstance(seed, int) or not 0 <= seed < 2**63:
        raise ArgumentError(f"seed must be a whole number from 0 to 2^63 - 1, got {seed!r}")
    return torch.Generator("cpu").manual_seed(seed)


def placed(value: Tensor, device: Any, dtype: torch.dtype | None) -> Tensor:
    """Where and in which precision the layer keeps it."""
    if dtype is not None and not dtype.is_floating_point:
        raise ArgumentError(f"parameters are real numbers, stored in pairs where complex: dtype = {dtype} will not do")
    return value.to(device=device or torch.get_default_device(), dtype=dtype or torch.get_default_dtype())


class SISOLayer(SequenceLayer):
    """A system of ``d_state`` states for every channel, each with its own step ``dt``."""

    def __init__(
        self,
        d_model: int,
        modes: Modes,
        *,
        n_ssm: int | None,
        dt_min: float,
        dt_max: float,
        disc: Discretisation,
        bidirectional: bool,
        C_init: str | Tensor,
        mode: Mode,
        seed: int | None,
        device: Any,
        dtype: torch.dtype | None,
    ) -> None:
        super().__init__(d_model, bidirectional=bidirectional)
        self.d_state = modes.V.shape[0]
        self.n_ssm = d_model if n_ssm is None else positive_int(n_ssm, "n_ssm")
        if d_model % self.n_ssm:
            raise ArgumentError(f"n_ssm = {self.n_ssm} must divide d_model = {d_model}")
        check_dt(dt_min, dt_max)
        for kind, name, known in (("disc", disc, ("zoh", "bilinear")), ("mode", mode, ("auto", "scan", "conv"))):
            if name not in known:
                raise UnknownNameError(kind, name, known)
        self.disc: Discretisation = disc
        self.mode: Mode = mode
        draw = generator_of(seed)
        log_dt = random_log_dt(d_model, dt_min, dt_max, draw)
        c = self._draw_C(C_init, 2 if bidirectional else 1, draw)
        D = torch.randn(d_model, dtype=torch.float64, generator=draw, device="cpu")

        def parameter(value: Tensor) -> nn.Parameter:
            return nn.Parameter(placed(value, device, dtype))

        def shared(value: Tensor) -> Tensor:
            return value.expand(self.n_ssm, *value.shape).clone()

        self.log_dt = parameter(log_dt)
        self.A_log_real = parameter(shared((-modes.Lambda.real).log()))
        self.A_imag = parameter(shared(modes.Lambda.imag))
        self.B = parameter(shared(pairs_of(modes.B)))
        self.C = parameter(pairs_of(c.to(modes.V.dtype) @ modes.V))
        self.D = parameter(D)
        if modes.P is not None:
            self.P = parameter(shared(pairs_of(modes.P)))
        self.register_buffer("count", placed(modes.count, device, dtype))
        self.count: Tensor

    def _draw_C(self, C_init: str | Tensor, directions: int, draw: torch.Generator | None) -> Tensor:
        """Read-outs in the coordinates of A: standard normal, or as given."""
        shape = (directions, self.d_model, self.d_state)
        if isinstance(C_init, Tensor):
            if C_init.is_complex() or C_init.shape not in (shape[2:], shape[1:], shape):
                raise ShapeError(
                    f"C_init must be real, of shape {shape[2:]}, {shape[1:]} or {shape}; got {tuple(C_init.shape)}"
                )
            return finite(C_init.to("cpu", torch.float64), "C_init").expand(shape)
        if C_init != "normal":
            raise ArgumentError(f"C_init is 'normal' or a tensor, got {C_init!r:.60}")
        return torch.randn(shape, dtype=torch.float64, generator=draw, device="cpu")

    @property
    def state_shape(self) -> tuple[int, ...]:
        """Real numbers: two for every stored mode of every channel."""
        return self.d_model, 2 * self.count.shape[-1]

    @property
    def dt(self) -> Float[Tensor, " channel"]:
        """Step of every channel."""
        return self.log_dt.exp()

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

    def _one_step(self, u: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        return self._advance(self._constants(), u, state)

    def _constants(self) -> tuple[Tensor, ...]:
        """What a step needs of the parameters: ``A, B, C, D``."""
        bank, dtype = self.bank(), self.compute_dtype
        return bank.transition.to(dtype), bank.columns(1)[..., 0].to(dtype), bank.rows(1)[:, 0].to(dtype), self.D

    def _advance(self, constants: tuple[Tensor, ...], u: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        A, B, C, D = constants
        x = times(A, state.transpose(0, 1)).transpose(0, 1) + u[..., None] * B
        return (x * C).sum(-1) + D * u, x

    def extra_repr(self) -> str:
        """Sizes, as the constructor takes them."""
        text = f"d_model={self.d_model}, d_state={self.d_state}, disc={self.disc!r}"
        return text + (", bidirectional=True" if self.bidirectional else "")
