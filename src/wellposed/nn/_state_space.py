"""What all state-space layers share: their options, how they draw what they start with, and their steps in time."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal, TypedDict

import torch
from jaxtyping import Float
from torch import Tensor, nn

from wellposed.errors import ArgumentError, UnknownNameError
from wellposed.nn._initial import Modes
from wellposed.nn._kernels import Discretisation
from wellposed.nn._layer import SequenceLayer, full_precision

Mode = Literal["auto", "scan", "conv"]


class Timing(TypedDict, total=False):
    """How a layer moves through time."""

    dt_min: float
    """Steps are drawn log-uniformly from here, 0.001 unless given, ..."""
    dt_max: float
    """... to here, 0.1 unless given."""
    disc: Discretisation
    """From continuous to discrete time: ``"zoh"``, the default but for S4, or ``"bilinear"``."""
    bidirectional: bool
    """Whether a second read-out goes over the reversed sequence."""
    mode: Mode
    """How it is computed, not what: ``"scan"`` in chunks, ``"conv"`` by FFT, ``"auto"`` the faster."""


class Options(Timing, total=False):
    """What every state-space layer takes."""

    seed: int | None
    """The same numbers whatever else draws; without one they come from PyTorch's generator."""
    device: Any
    dtype: torch.dtype | None


@dataclass(frozen=True)
class Draw:
    """Where the numbers of a new layer come from and go to: float64 on the CPU, converted once."""

    seed: int | None
    device: Any
    dtype: torch.dtype | None

    def __post_init__(self) -> None:
        if self.seed is not None and not (isinstance(self.seed, int) and 0 <= self.seed < 2**63):
            raise ArgumentError(f"seed must be a whole number from 0 to 2^63 - 1, got {self.seed!r}")
        if self.dtype is not None and not self.dtype.is_floating_point:
            raise ArgumentError(f"parameters are real, complex ones stored as pairs: dtype = {self.dtype} will not do")

    @cached_property
    def generator(self) -> torch.Generator | None:
        """One of its own for a seed; without one, PyTorch's."""
        return None if self.seed is None else torch.Generator("cpu").manual_seed(self.seed)

    def normal(self, *shape: int) -> Tensor:
        """Standard normal numbers."""
        return torch.randn(shape, dtype=torch.float64, generator=self.generator, device="cpu")

    def log_uniform(self, count: int, low: float, high: float) -> Tensor:
        """Logarithms of numbers between the bounds, uniform themselves."""
        share = torch.rand(count, dtype=torch.float64, generator=self.generator, device="cpu")
        return math.log(low) + (math.log(high) - math.log(low)) * share

    def placed(self, value: Tensor) -> Tensor:
        """Where and in which precision the layer keeps it; complex numbers as pairs of real ones."""
        real = torch.view_as_real(value.resolve_conj()) if value.is_complex() else value
        device, dtype = self.device or torch.get_default_device(), self.dtype or torch.get_default_dtype()
        return real.to(device=device, dtype=dtype, copy=True)

    def parameter(self, value: Tensor) -> nn.Parameter:
        """A parameter that starts there."""
        return nn.Parameter(self.placed(value))


class StateSpaceLayer(SequenceLayer):
    """Systems of ``d_state`` states, advanced by steps ``dt`` of their own."""

    _disc: ClassVar[Discretisation] = "zoh"

    def __init__(
        self,
        d_model: int,
        modes: Modes,
        draw: Draw,
        *,
        steps: int,
        dt_min: float = 0.001,
        dt_max: float = 0.1,
        disc: Discretisation | None = None,
        bidirectional: bool = False,
        mode: Mode = "auto",
    ) -> None:
        super().__init__(d_model, bidirectional=bidirectional)
        disc = self._disc if disc is None else disc
        for kind, name, known in (("disc", disc, ("zoh", "bilinear")), ("mode", mode, ("auto", "scan", "conv"))):
            if name not in known:
                raise UnknownNameError(kind, name, known)
        if not all(isinstance(dt, float | int) for dt in (dt_min, dt_max)) or not 0 < dt_min <= dt_max < math.inf:
            raise ArgumentError(f"need 0 < dt_min <= dt_max, got dt_min = {dt_min}, dt_max = {dt_max}")
        self.d_state = modes.V.shape[0]
        self.disc: Discretisation = disc
        self.mode: Mode = mode
        self.log_dt = draw.parameter(draw.log_uniform(steps, dt_min, dt_max))
        self.register_buffer("count", draw.placed(modes.count))
        self.count: Tensor

    @property
    def dt(self) -> Float[Tensor, " step"]:
        """Step of every channel (S4 and its kin) or of every mode (S5)."""
        return self.log_dt.exp()

    def _convolves(self, u: Tensor) -> bool:
        """Whether by FFT; left to choose, on a GPU, where the short operations of the scan wait for each other."""
        if torch.compiler.is_exporting():
            return False
        return u.is_cuda if self.mode == "auto" else self.mode == "conv"

    @abstractmethod
    def _constants(self) -> tuple[Tensor, ...]:
        """What a step needs of the parameters."""

    @abstractmethod
    def _advance(self, constants: tuple[Tensor, ...], u: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """One step with these at hand: output and next state."""

    def _one_step(self, u: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        return self._advance(self._constants(), u, state)

    def stepper(self) -> Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]:
        """``step`` with everything that depends on the parameters computed once, for long streams.

        It keeps the parameters as they are now, and checks nothing.
        """
        self._forward_only("stepper")
        with full_precision(self.log_dt.device):
            constants = self._constants()
        dtype = self.compute_dtype

        def step(u: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
            rounding = torch.is_autocast_enabled(u.device.type)
            with full_precision(u.device) if rounding else nullcontext():
                y, state = self._advance(constants, u.to(dtype), state)
            return y.to(u.dtype), state

        return step

    def extra_repr(self) -> str:
        """Sizes, as the constructor takes them."""
        text = f"d_model={self.d_model}, d_state={self.d_state}, disc={self.disc!r}"
        return text + (", bidirectional=True" if self.bidirectional else "")
