"""Layers with one system a channel: what S4, S4D, S4-PTD and Liquid-S4 share."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Complex128, Float64
from torch import Tensor, nn

from wellposed._checks import finite, positive_int
from wellposed.errors import ArgumentError, ShapeError
from wellposed.kernels import DenseRecurrence, DiagonalParameters, LowRankParameters, as_float64, times
from wellposed.nn._initial import SCALES, Modes, Scale, check_name
from wellposed.nn._state_space import StateSpaceConfig, StateSpaceLayer


@dataclass(frozen=True, eq=False, kw_only=True)
class SISOConfig(StateSpaceConfig):
    """What the layers with a system a channel take besides."""

    n_ssm: int | None = None
    """How many systems the channels share in turn; one each unless given."""
    C_init: Any = "normal"
    """``"normal"``, or real read-outs in the coordinates of ``A``: ``(n,)``, ``(d_model, n)`` or one a direction."""
    scale: Scale = "paper"
    """Of ``B``, and of time for LegT and FouT: as in the paper, or as in the published code of S4 (``hippo``)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_name("scale", self.scale, SCALES)
        if self.n_ssm is not None and self.d_model % positive_int(self.n_ssm, "n_ssm"):
            raise ArgumentError(f"n_ssm = {self.n_ssm} must divide d_model = {self.d_model}")


class SISOLayer(StateSpaceLayer):
    """A system of ``d_state`` states for every channel, each with its own step ``dt``.

    ``C`` and ``D`` are drawn unless given: ``C`` in the coordinates of the modes, a read-out for each direction.
    """

    def __init__(
        self,
        config: SISOConfig,
        modes: Modes,
        *,
        C: Complex128[Tensor, "direction channel mode"] | None = None,
        D: Float64[Tensor, " channel"] | None = None,
    ) -> None:
        super().__init__(config, modes, steps=config.d_model)
        draw = config.draw
        self.n_ssm = config.d_model if config.n_ssm is None else config.n_ssm
        if modes.Lambda.ndim == 2 and len(modes.Lambda) != self.n_ssm:
            raise ArgumentError(f"n_ssm = {self.n_ssm}, but there are {len(modes.Lambda)} systems: leave n_ssm out")

        def shared(value: Tensor) -> nn.Parameter:
            """One for each system: all start alike, unless there are modes for each."""
            return draw.parameter(value if modes.Lambda.ndim == 2 else value.expand(self.n_ssm, *value.shape))

        self.A_log_real = shared((-modes.Lambda.real).log())
        self.A_imag = shared(modes.Lambda.imag)
        self.B = shared(modes.B)
        drawn = self._draw_C(config).to(modes.V.dtype) @ modes.V if C is None else C
        self.C = draw.parameter(drawn)
        self.D = draw.parameter(draw.normal(config.d_model) if D is None else D)
        if modes.P is not None:
            self.P = shared(modes.P)

    def _draw_C(self, config: SISOConfig) -> Tensor:
        """Read-outs in the coordinates of A: standard normal, or as given."""
        shape, C_init = (2 if self.bidirectional else 1, self.d_model, self.d_state), config.C_init
        if not isinstance(C_init, str):
            C_init = torch.as_tensor(C_init)
            if C_init.is_complex() or C_init.shape not in (shape[2:], shape[1:], shape):
                raise ShapeError(
                    f"C_init must be real, of shape {shape[2:]}, {shape[1:]} or {shape}; got {tuple(C_init.shape)}"
                )
            return finite(C_init.to("cpu", torch.float64), "C_init").expand(shape)
        if C_init != "normal":
            raise ArgumentError(f"C_init is 'normal' or a tensor, got {C_init!r:.60}")
        return config.draw.normal(*shape)

    @property
    def state_shape(self) -> tuple[int, ...]:
        """Real numbers: two for every stored mode of every channel."""
        return self.d_model, 2 * self.count.shape[-1]

    @property
    def matrix_size(self) -> int:
        """All of the states: a channel has one matrix."""
        return self.d_state

    def mode_axes(self) -> dict[str, int]:
        """``B`` and ``C`` end in the two parts of complex numbers, ``P`` in its rank and those."""
        return {"A_log_real": -1, "A_imag": -1, "count": -1, "B": -2, "C": -2, "P": -3}

    def resonant_step(self, frequency: Float64[Tensor, "choice 1"]) -> Float64[Tensor, "choice channel"]:
        """The channel's own step, whatever the frequency."""
        return self.log_dt.detach().double().exp().expand(len(frequency), -1)

    def _repeated(self, parameter: Tensor) -> Tensor:
        """Shared systems written out, one a channel, in float64."""
        copies, wide = self.d_model // self.n_ssm, as_float64(parameter)
        return wide if copies == 1 else wide.repeat(copies, *[1] * (parameter.ndim - 1))

    def _weighted_C(self) -> Tensor:
        """Read-outs of each direction, every mode as often as it counts."""
        return as_float64(self.C) * as_float64(self.count)[:, None]

    @abstractmethod
    def _kernel_system(self) -> DiagonalParameters | LowRankParameters | DenseRecurrence:
        """The systems as the kernels take them."""

    def _constants(self) -> tuple[Tensor, ...]:
        """What a step needs of the parameters: ``A, B, C, D``."""
        system, dtype = self._kernel_system().discretize(), self.compute_dtype
        A, B, C = system.transition, system.columns(1)[..., 0], system.rows(1)[:, 0]
        return A.to(dtype), B.to(dtype), C.to(dtype), self.D

    def _advance(self, constants: tuple[Tensor, ...], u: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        A, B, C, D = constants
        x = times(A, state.transpose(0, 1)).transpose(0, 1) + u[..., None] * B
        return (x * C).sum(-1) + D * u, x
