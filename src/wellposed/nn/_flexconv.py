"""FlexConv: a causal convolution whose kernel is a function of time, as long as it has learned to be."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from wellposed._checks import number, positive_int
from wellposed.errors import ArgumentError
from wellposed.kernels import as_float64, take_steps
from wellposed.kernels.device import exporting
from wellposed.kernels.fft import convolve
from wellposed.kernels.layout import rows
from wellposed.nn._config import built_from
from wellposed.nn._continuous_kernels import GENERATORS, Generator, make_generator
from wellposed.nn._initial import check_dtype, check_name
from wellposed.nn._layer import SequenceLayer
from wellposed.nn._lengths import Lengths
from wellposed.nn._seeded import seeded
from wellposed.nn._weights import applied, he_

CROP = 0.1
"""Where the mask is below this, the kernel is zero."""
_REACH = math.sqrt(-2 * math.log(CROP))  # in standard deviations of the mask
_FLOOR = 1e-8  # of the variance of the mask, as published
_ROUNDING = 1e-12  # a rate that divides the time without a rest may come out below the whole number


@dataclass(frozen=True)
class FlexConvConfig:
    """What FlexConv takes."""

    d_model: int
    """Channels."""
    _: KW_ONLY
    length: int = 1024
    """Steps of the longest kernel: its time goes from 1, now, to -1, so many steps ago; of the longest sequence."""
    hidden: int = 32
    """Channels inside the network that makes the kernel."""
    generator: Generator = "magnet"
    """``"magnet"`` (Gabor functions, multiplied) or ``"siren"`` (sines of sines)."""
    omega_0: float | int = 1000.0
    """How fast the kernel varies at the start; in radians, for ``"magnet"`` over ``2 pi``."""
    mask_width: float | int = 0.1
    """Standard deviation of the mask at the start, where the whole kernel spans 2; learned."""
    rate: float | int = 1.0
    """How many steps of the sampling it was trained with a step is long: 2 for sequences sampled half as often."""
    d_output: int | None = None
    """Channels that come out; ``d_model`` unless given."""
    seed: int | None = None
    """The same weights whatever else draws random numbers."""
    device: Any = None
    dtype: torch.dtype | None = None

    def __post_init__(self) -> None:
        for name in ("d_model", "length", "hidden"):
            positive_int(getattr(self, name), name)
        if self.length < 2:
            raise ArgumentError("length = 1: a kernel needs 2 steps or more for its time to pass")
        check_name("generator", self.generator, GENERATORS)
        for name in ("omega_0", "mask_width"):
            if not 0 < number(getattr(self, name), name) < math.inf:
                raise ArgumentError(f"{name} must be above 0 and finite, got {getattr(self, name)}")
        checked_rate(self.rate, self.length)
        if self.d_output is not None:
            positive_int(self.d_output, "d_output")
        check_dtype(self.dtype)


def checked_rate(rate: float | int, length: int) -> float:
    """A rate with which the kernel still has two samples."""
    if not 0 < number(rate, "rate") <= length - 1:
        raise ArgumentError(f"rate = {rate} must be above 0 and leave two samples of {length}: at most {length - 1}")
    return float(rate)


class FlexConv(SequenceLayer):
    """CCNN's separable convolution (Knigge et al., 2023): a long kernel for each channel, then a map of the channels.

    ``y_t = W (b + sum_s k(1 - 2 s / (length - 1)) u_{t-s}) + c`` with a kernel ``k(t) = m(t) f(t)``: ``f`` is a small
    network, ``m(t) = exp(-(t - 1)^2 / (2 sigma^2))`` a mask whose width is learned, and zero where it is below 0.1. By
    FFT. The kernel ends after ``length`` steps, so that it streams: its state is the inputs of that time.

    ``layer.rate = 2`` samples the same function half as often, for sequences that are.

    >>> layer = FlexConv(4, length=100)
    >>> y, state = layer(torch.randn(2, 300, 4), return_state=True)
    >>> y, state = layer.step(torch.randn(2, 4), state)
    >>> state.shape
    torch.Size([2, 99, 4])
    """

    @built_from(FlexConvConfig)
    def __init__(self, config: FlexConvConfig) -> None:
        super().__init__(config.d_model)
        self.length, self._rate = config.length, checked_rate(config.rate, config.length)
        self.d_output = config.d_model if config.d_output is None else config.d_output
        place = torch.get_default_device() if config.device is None else config.device
        sizes = (config.d_model, config.hidden, float(config.omega_0), float(config.mask_width))
        with seeded(config.seed):
            self.mask_width = nn.Parameter(torch.tensor(float(config.mask_width), dtype=config.dtype))
            self.bias = nn.Parameter(torch.zeros(config.d_model, dtype=config.dtype))
            self.generator = make_generator(config.generator, *sizes, dtype=config.dtype)
            self.mix = nn.Linear(config.d_model, self.d_output, dtype=config.dtype)
            he_(self.mix)
        with torch.no_grad():  # sums over the kernel start with a variance of about that of their terms
            samples = 1 + min(_REACH * float(config.mask_width) / 2, 1.0) * (config.length - 1)
            self.generator.out.weight.mul_(samples**-0.5)
        self.to(place)

    @property
    def rate(self) -> float:
        """How many steps of the sampling it was trained with a step is long."""
        return self._rate

    @rate.setter
    def rate(self, rate: float | int) -> None:
        self._rate = checked_rate(rate, self.length)

    @property
    def kernel_size(self) -> int:
        """Samples of the kernel."""
        return int((self.length - 1) / self.rate * (1 + _ROUNDING)) + 1

    @property
    def state_shape(self) -> tuple[int, ...]:
        """The inputs that a kernel still sees."""
        return self.kernel_size - 1, self.d_model

    def undecayed_parameters(self) -> tuple[str, ...]:
        """A width is not the smaller the better."""
        return ("mask_width",)

    def kernel(self, samples: int | None = None) -> Float[Tensor, "channel sample"]:
        """Its first samples, now first; all of them unless told."""
        count = self.kernel_size if samples is None else min(positive_int(samples, "samples"), self.kernel_size)
        device, dtype = self.bias.device, self.compute_dtype
        ago = as_float64(torch.arange(count, device=device).float()) * (2 * self.rate / (self.length - 1))
        t, width = (1 - ago).to(dtype), self.mask_width.to(dtype)
        mask = (-((t - 1) ** 2) / (2 * (width**2 + _FLOOR))).exp()
        # Zeros in place of fewer samples: a size that depends on a parameter could not be recorded in a CUDA graph.
        mask = torch.where(ago.to(dtype) <= _REACH * width.abs(), mask, 0.0)
        return (self.rate * mask[:, None] * self.generator(t)).t()

    def _sequence(
        self, u: Tensor, lengths: Lengths | None, state: Tensor | None, want_state: bool
    ) -> tuple[Tensor, Tensor | None]:
        past = self.kernel_size - 1
        before = u.new_zeros(u.shape[0], past, self.d_model) if state is None and want_state else state
        seen = u if before is None else torch.cat([before, u], 1)
        y = _convolved(seen if state is not None else u, self.kernel(seen.shape[1]))[:, -u.shape[1] :]
        return applied(self.mix, y + self.bias), self._last(seen, lengths, past) if want_state else None

    def _last(self, seen: Tensor, lengths: Lengths | None, past: int) -> Tensor:
        """The last inputs of each sequence, its padding left out."""
        if lengths is None:
            return seen[:, seen.shape[1] - past :]
        return take_steps(seen, lengths.values[:, None] + torch.arange(past, device=seen.device))

    def _one_step(self, u: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        return self._step_by(self.kernel().flip(1).t(), u, state)

    def _step_by(self, backwards: Float[Tensor, "sample channel"], u: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        window = torch.cat([state, u[:, None]], 1)
        return applied(self.mix, (window * backwards).sum(1) + self.bias), window[:, 1:]

    def stepper(self) -> Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]:
        """``step`` for long streams: the kernel is computed once."""
        self._check_steps("stepper")
        backwards = self.kernel().flip(1).t()

        def step(u: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
            self._check_undisturbed()
            y, state = self._step_by(backwards, u.to(self.compute_dtype), state)
            return y.to(u.dtype), state

        return step

    def extra_repr(self) -> str:
        """Sizes, as the constructor takes them."""
        return f"d_model={self.d_model}, length={self.length}, rate={self.rate:g}"


def _convolved(
    u: Float[Tensor, "batch length channel"], kernel: Float[Tensor, "channel sample"]
) -> Float[Tensor, "batch length channel"]:
    """Causal, channel by channel."""
    length, samples = u.shape[1], kernel.shape[1]
    if exporting():  # exporters know no FFT of real numbers alone
        x = F.pad(u.transpose(1, 2), (samples - 1, 0))
        return F.conv1d(x, kernel.flip(1)[:, None], groups=len(kernel)).transpose(1, 2)
    return convolve(rows(u), F.pad(kernel, (0, length - samples))).permute(1, 2, 0)
