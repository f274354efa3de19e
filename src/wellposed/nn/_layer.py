"""What every sequence layer does: one call for whole sequences, one for a single step, and a state between calls."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from jaxtyping import Float, Float64
from torch import Tensor, nn

from wellposed._checks import positive_int
from wellposed.errors import ArgumentError, ShapeError
from wellposed.kernels import Work
from wellposed.nn._lengths import Lengths, as_lengths


def full_precision(device: torch.device) -> AbstractContextManager[Any]:
    """No autocast inside: the state-space core keeps its precision."""
    if device.type == "meta" or not torch.is_autocast_enabled(device.type):
        return nullcontext()
    return torch.autocast(device.type, enabled=False)


def keep_length(u: Tensor) -> None:
    """A compiler makes one version for each length: chunks and tables depend on it, and open ones take it minutes."""
    if torch.compiler.is_dynamo_compiling():
        from torch._dynamo.comptime import comptime

        comptime.force_static(u.shape[1])


class SequenceLayer(nn.Module, ABC):
    """``(batch, length, d_model)`` to the same shape.

    With ``lengths`` the padding of shorter sequences neither enters a result nor leaves one: outputs there are zero.
    A ``state`` continues an earlier call; ``return_state=True`` hands on the state after the last true step.

    A layer answers for itself: optimiser groups, saving and noise ask ``ssm_parameters``, ``undecayed_parameters`` and
    ``mode_axes``, and know no concrete layer.
    """

    _disturbances = 0
    """Noises on this layer; while there are some, single steps are refused."""

    channels_first = False
    """Whether it works on channels one by one, and so likes a sequence of each to lie together in memory on a GPU."""

    def __init__(self, d_model: int, *, bidirectional: bool = False) -> None:
        super().__init__()
        self.d_model = positive_int(d_model, "d_model")
        self.bidirectional = bidirectional

    def ssm_parameters(self) -> tuple[str, ...]:
        """Names of the parameters that make up a state-space system: they learn slowly and do not decay."""
        return ()

    def undecayed_parameters(self) -> tuple[str, ...]:
        """Names of other parameters that do not decay, biases apart."""
        return ()

    def mode_axes(self) -> dict[str, int]:
        """Along which axis each parameter and buffer counts modes, where their number is found and not given."""
        return {}

    resonates = False
    """Whether noise is added to its input: a layer with a resonance says ``matrix_size`` and ``resonant_step``."""

    @property
    def matrix_size(self) -> int:
        """``n`` of the matrix whose eigenvalues the modes are."""
        raise NotImplementedError(f"{type(self).__name__} has no matrix")

    def resonant_step(self, frequency: Float64[Tensor, "choice 1"]) -> Float64[Tensor, "choice channel"]:
        """Step ``dt`` with which an input of each channel meets each frequency of continuous time."""
        raise NotImplementedError(f"{type(self).__name__} has no step")

    def moved_by_discretisation(self, angle: Float64[Tensor, "*shape"]) -> Float64[Tensor, "*shape"]:
        """Where a resonance at ``frequency * dt`` radians a step stands in discrete time."""
        return angle

    def __getstate__(self) -> dict[str, Any]:
        """A copy is a layer of its own: noise on this one is not on it."""
        return {name: value for name, value in vars(self).items() if name != "_disturbances"}

    @abstractmethod
    def _sequence(
        self, u: Tensor, lengths: Lengths | None, state: Tensor | None, want_state: bool
    ) -> tuple[Tensor, Tensor | None]:
        """Outputs and last state, everything checked, in the precision of ``compute_dtype``."""

    @abstractmethod
    def _one_step(self, u: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """Output and next state, everything checked."""

    def _work(self, u: Tensor, lengths: Lengths | None) -> Work | None:
        """What a call is to the kernels, for those who do it together with what surrounds it; ``None``: it is more."""
        return None

    @property
    @abstractmethod
    def state_shape(self) -> tuple[int, ...]:
        """Shape of the state of one sequence."""

    @property
    def compute_dtype(self) -> torch.dtype:
        """float64 if the parameters are, else float32, whatever autocast says."""
        first = self._first_parameter()
        dtype = torch.get_default_dtype() if first is None else first.dtype
        return torch.float64 if dtype == torch.float64 else torch.float32

    def _first_parameter(self) -> Tensor | None:
        """``next(self.parameters())``, which looks through all modules and is asked several times a call."""
        own = next(iter(self._parameters.values()), None)
        return next(self.parameters(), None) if own is None else own

    def _sequence_dtype(self, u: Tensor) -> torch.dtype:
        """In which precision whole sequences are handed to ``_sequence``."""
        return self.compute_dtype

    def forward(
        self,
        u: Float[Tensor, "batch length channel"],
        *,
        lengths: Tensor | Lengths | None = None,
        state: Tensor | None = None,
        return_state: bool = False,
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Whole sequences at once."""
        self._check_input(u, 3, "(batch, length, d_model)")
        if 0 in u.shape:
            what = "the batch is empty" if u.shape[0] == 0 else "the sequences have length 0"
            raise ShapeError(f"{what}: there is nothing to compute, and no state to return")
        lengths = as_lengths(lengths, u.shape[0], u.shape[1], u.device)
        if self.bidirectional and (state is not None or return_state):
            raise ArgumentError("a bidirectional layer reads the future: it has no state to carry between calls")
        if state is not None:
            self._check_state(state, u)
        keep_length(u)
        dtype, inside = u.dtype, self._sequence_dtype(u)
        with full_precision(u.device):
            u = u.to(inside)
            y, last = self._sequence(u if lengths is None else lengths.zero(u), lengths, state, return_state)
        y = (y if lengths is None else lengths.zero(y)).to(inside if inside == torch.bfloat16 else dtype)
        if not return_state:
            return y
        assert last is not None
        return y, last

    def initial_state(self, batch: int) -> Tensor:
        """The state before the first step, zero, on the layer's device."""
        self._check_forward("initial_state")
        first = next(self.parameters(), None)
        shape = (positive_int(batch, "batch"), *self.state_shape)
        return torch.zeros(shape, dtype=self.compute_dtype, device=None if first is None else first.device)

    def step(self, u: Float[Tensor, "batch channel"], state: Tensor) -> tuple[Tensor, Tensor]:
        """One step for every sequence of a batch: output and next state."""
        self._check_steps("step")
        self._check_input(u, 2, "(batch, d_model)")
        self._check_state(state, u)
        with full_precision(u.device):
            y, state = self._one_step(u.to(self.compute_dtype), state)
        return y.to(u.dtype), state

    def stepper(self) -> Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]:
        """A function like ``step`` for long streams; layers that can prepare something do so once."""
        self._check_steps("stepper")
        return self.step

    def _check_steps(self, what: str) -> None:
        self._check_forward(what)
        self._check_undisturbed()

    def _check_forward(self, what: str) -> None:
        if self.bidirectional:
            raise ArgumentError(f"{what} on a bidirectional layer: it reads the future; pass bidirectional=False")

    def _check_undisturbed(self) -> None:
        """Also by steppers made before the noise came, which would run on without it."""
        if self._disturbances:
            raise ArgumentError("a single step does not know its number, which noise needs: pass whole sequences")

    def _check_input(self, u: Any, ndim: int, shape: str) -> None:
        name = type(self).__name__
        if not isinstance(u, Tensor):
            raise ArgumentError(f"{name} takes a tensor, got {type(u).__name__}: torch.as_tensor(...)")
        if u.ndim != ndim or u.shape[-1] != self.d_model:
            raise ShapeError(f"{name} takes {shape} with d_model = {self.d_model}, got {tuple(u.shape)}")
        if not u.dtype.is_floating_point:
            raise ArgumentError(f"{name} takes real floating-point sequences, got {u.dtype}")
        if (u.dtype == torch.float64) != (self.compute_dtype == torch.float64):
            remedy = "layer.double()" if u.dtype == torch.float64 else "u.double()"
            raise ArgumentError(f"the sequence is {u.dtype}, the layer {self.compute_dtype}: use {remedy}")

    def _check_state(self, state: Any, u: Tensor) -> None:
        expected = (u.shape[0], *self.state_shape)
        if not isinstance(state, Tensor):
            raise ArgumentError(f"state must be a tensor of shape {expected}, got {type(state).__name__}")
        if state.shape != expected:
            raise ShapeError(f"state has shape {tuple(state.shape)}; this layer and batch need {expected}")
        if state.dtype != self.compute_dtype:
            raise ArgumentError(f"state is {state.dtype}, this layer computes in {self.compute_dtype}")
        if state.device != u.device:
            raise ArgumentError(f"state is on {state.device}, the sequence on {u.device}: move one of them")
