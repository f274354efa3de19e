"""What all state-space layers share: their options, how they draw what they start with, and their steps in time."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import Any

import torch
from jaxtyping import Float, Float64
from torch import Tensor, nn

from wellposed import kernels
from wellposed._checks import positive_int
from wellposed._checks import seed as checked_seed
from wellposed.errors import ArgumentError
from wellposed.kernels import BACKENDS, DISCRETISATIONS, Discretisation, Mode, Work, has_triton
from wellposed.nn._initial import Modes, check_dtype, check_name
from wellposed.nn._layer import SequenceLayer, full_precision
from wellposed.nn._lengths import Lengths


@dataclass(frozen=True, eq=False)
class StateSpaceConfig:
    """What every state-space layer takes."""

    d_model: int
    """Channels."""
    d_state: int | None = 64
    """States: of each channel's system, or of the one system of S5."""
    _: KW_ONLY
    dt_min: float | int = 0.001
    """Steps are drawn log-uniformly from here ..."""
    dt_max: float | int = 0.1
    """... to here."""
    disc: Discretisation = "zoh"
    """From continuous to discrete time: ``"zoh"`` or ``"bilinear"``."""
    bidirectional: bool = False
    """Whether a second read-out goes over the reversed sequence."""
    mode: Mode = "auto"
    """How it is computed, not what: ``"scan"`` (chunks), ``"conv"`` (FFT), ``"triton"`` (on a GPU), or ``"auto"``."""
    seed: int | None = None
    """The same numbers whatever else draws; without one they come from PyTorch's generator."""
    device: Any = None
    dtype: torch.dtype | None = None

    def __post_init__(self) -> None:
        positive_int(self.d_model, "d_model")
        if self.d_state is not None:
            positive_int(self.d_state, "d_state")
        check_name("disc", self.disc, DISCRETISATIONS)
        check_name("mode", self.mode, ("auto", *BACKENDS))
        low, high = self.dt_min, self.dt_max
        if not all(isinstance(dt, float | int) for dt in (low, high)) or not 0 < low <= high < math.inf:
            raise ArgumentError(f"need 0 < dt_min <= dt_max, got dt_min = {low}, dt_max = {high}")
        check_dtype(self.dtype)
        assert self.draw  # its seed is checked

    @cached_property
    def draw(self) -> Draw:
        """Where the numbers of the new layer come from and go to."""
        return Draw(None if self.seed is None else checked_seed(self.seed), self.device, self.dtype)


@dataclass(frozen=True)
class Draw:
    """Where the numbers of a new layer come from and go to: float64 on the CPU, converted once."""

    seed: int | None
    device: Any
    dtype: torch.dtype | None

    @cached_property
    def generator(self) -> torch.Generator | None:
        """One of its own for a seed; without one, PyTorch's."""
        return None if self.seed is None else torch.Generator("cpu").manual_seed(checked_seed(self.seed))

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
    """Systems of ``d_state`` states, advanced by steps ``dt`` of their own.

    A layer says what its systems are, for whole sequences (``_kernel_system``) and for one step (``_constants``,
    ``_advance``), and answers for its parameters (``ssm_parameters``, ``mode_axes``, ``resonant_step``).
    """

    D: nn.Parameter
    count: Tensor

    def __init__(self, config: StateSpaceConfig, modes: Modes, *, steps: int) -> None:
        super().__init__(config.d_model, bidirectional=config.bidirectional)
        self.d_state = modes.V.shape[0]
        self.disc: Discretisation = config.disc
        self.mode: Mode = config.mode
        # The order of draws is kept from version to version: steps, then C (S5: B before it), then D.
        self.log_dt = config.draw.parameter(config.draw.log_uniform(steps, config.dt_min, config.dt_max))
        self.register_buffer("count", config.draw.placed(modes.count))

    @property
    def dt(self) -> Float[Tensor, " step"]:
        """Step of every channel (S4 and its kin) or of every mode (S5)."""
        return self.log_dt.exp()

    def ssm_parameters(self) -> tuple[str, ...]:
        """Eigenvalues, input, low-rank part and steps."""
        return tuple(name for name in ("A_log_real", "A_imag", "B", "P", "log_dt") if hasattr(self, name))

    def undecayed_parameters(self) -> tuple[str, ...]:
        """The skip."""
        return ("D",)

    resonates = True
    channels_first = True

    def moved_by_discretisation(self, angle: Float64[Tensor, "*shape"]) -> Float64[Tensor, "*shape"]:
        """The bilinear rule moves a resonance: docs/devdocs/errata.md, 3."""
        return angle if self.disc == "zoh" else 2 * torch.atan(angle / 2)

    takes_bfloat16 = True
    """Whether sequences may go to the kernels in bfloat16, where these sum in float32."""

    def _sequence_dtype(self, u: Tensor) -> torch.dtype:
        """On a GPU bfloat16 stays, and autocast means what it means for a product: halved traffic, sums in float32."""
        half = u.dtype == torch.bfloat16
        if u.is_cuda and torch.is_autocast_enabled(u.device.type):
            half = torch.get_autocast_dtype(u.device.type) == torch.bfloat16
        fast = half and self.takes_bfloat16 and self.compute_dtype == torch.float32 and has_triton(u)
        return torch.bfloat16 if fast else self.compute_dtype

    @abstractmethod
    def _kernel_system(self) -> Any:
        """The systems as the kernels take them."""

    def _sequence(
        self, u: Tensor, lengths: Lengths | None, state: Tensor | None, want_state: bool
    ) -> tuple[Tensor, Tensor | None]:
        values = None if lengths is None else lengths.values
        return kernels.run(Work(self._kernel_system(), u, self.D, state, values, want_state), self.mode)

    def _work(self, u: Tensor, lengths: Lengths | None) -> Work | None:
        """The systems and their input, unless a subclass does more than that with a sequence."""
        own = type(self)
        if own.forward is not SequenceLayer.forward or own._sequence is not StateSpaceLayer._sequence:
            return None
        with full_precision(u.device):
            work = Work(self._kernel_system(), u, self.D, None, None if lengths is None else lengths.values)
        return work if kernels.choose(work, self.mode) == "triton" else None

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

        It keeps the parameters as they are now, and checks no shapes.
        """
        self._check_steps("stepper")
        with full_precision(self.log_dt.device):
            constants = self._constants()
        dtype = self.compute_dtype

        def step(u: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
            self._check_undisturbed()
            rounding = torch.is_autocast_enabled(u.device.type)
            with full_precision(u.device) if rounding else nullcontext():
                y, state = self._advance(constants, u.to(dtype), state)
            return y.to(u.dtype), state

        return step

    def extra_repr(self) -> str:
        """Sizes, as the constructor takes them."""
        text = f"d_model={self.d_model}, d_state={self.d_state}, disc={self.disc!r}"
        return text + (", bidirectional=True" if self.bidirectional else "")
