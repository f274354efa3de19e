"""Layers with one system for all channels: what S5 and S5-PTD share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float64
from torch import Tensor

from wellposed._checks import positive_int
from wellposed.errors import ArgumentError, UnknownNameError
from wellposed.kernels import SharedParameters, as_float64, times
from wellposed.nn._initial import Modes
from wellposed.nn._state_space import Draw, StateSpaceConfig, StateSpaceLayer
from wellposed.systems import DiagonalSystem

CInit = Literal["lecun_normal", "truncated_normal", "complex_normal"]
_C_INITS = ("lecun_normal", "truncated_normal", "complex_normal")
_SPREAD = 0.8796256610342398  # standard deviation of a standard normal number cut off at 2


@dataclass(frozen=True, eq=False, kw_only=True)
class MIMOConfig(StateSpaceConfig):
    """What the layers with one system for all channels take besides."""

    blocks: int = 1
    """Copies of the matrix on the diagonal, each of size ``d_state / blocks``."""
    C_init: CInit = "lecun_normal"
    """How the read-out starts; see ``MIMOLayer``."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if positive_int(self.blocks, "blocks") and self.d_state is not None and self.d_state % self.blocks:
            raise ArgumentError(f"blocks = {self.blocks} must divide d_state = {self.d_state}")
        if not isinstance(self.C_init, str) or self.C_init not in _C_INITS:
            name = self.C_init if isinstance(self.C_init, str) else type(self.C_init).__name__
            raise UnknownNameError("C_init", name, _C_INITS)


class MIMOLayer(StateSpaceLayer):
    """One diagonal system with ``d_model`` inputs and outputs; every state has its own step ``dt``.

    At the start ``B`` is ``V^-1 b`` and ``C`` is ``c V``, with real ``b`` and complex ``c`` drawn from normal
    distributions cut off at two standard deviations: variance ``1/n`` for ``b``; for the parts of ``c`` it is ``1/n``
    (``C_init="truncated_normal"``) or ``1/(n d_model)`` (``"lecun_normal"``). ``"complex_normal"`` draws ``C`` itself,
    standard complex normal. These are the scales of the published code (Smith et al., 2023).
    """

    def __init__(self, config: MIMOConfig, modes: Modes) -> None:
        n, stored, draw = modes.V.shape[0], len(modes.Lambda), config.draw
        super().__init__(config, modes, steps=stored)
        self.blocks = config.blocks
        self.A_log_real = draw.parameter((-modes.Lambda.real).log())
        self.A_imag = draw.parameter(modes.Lambda.imag)
        self.B = draw.parameter(modes.V_inv @ _lecun((n, self.d_model), n, draw).to(modes.V.dtype))
        directions = 2 if self.bidirectional else 1
        if config.C_init == "complex_normal":
            self.C = draw.parameter(draw.normal(directions, self.d_model, stored, 2) / 2**0.5)
        else:
            fan = n * self.d_model if config.C_init == "lecun_normal" else n
            c = torch.view_as_complex(_lecun((directions, self.d_model, n, 2), fan, draw))
            self.C = draw.parameter(c @ modes.V)
        self.D = draw.parameter(draw.normal(self.d_model))

    @property
    def state_shape(self) -> tuple[int, ...]:
        """Real numbers: two for every stored mode."""
        return (2 * self.count.shape[-1],)

    @property
    def matrix_size(self) -> int:
        """Of one block."""
        return self.d_state // self.blocks

    def mode_axes(self) -> dict[str, int]:
        """Every mode has a step; ``B`` and ``C`` end in a channel or a mode and the two parts of complex numbers."""
        return {"A_log_real": -1, "A_imag": -1, "count": -1, "log_dt": -1, "B": -3, "C": -2}

    def resonant_step(self, frequency: Float64[Tensor, "choice 1"]) -> Float64[Tensor, "choice channel"]:
        """That of the mode of nearest frequency, as channels have none; they take the blocks in turn."""
        dt = self.log_dt.detach().double().exp().unflatten(0, (self.blocks, -1))
        modes = self.A_imag.detach().double().abs().unflatten(0, (self.blocks, -1))
        nearest = (modes - frequency[..., None]).abs().argmin(-1, keepdim=True)  # (choice, block, 1)
        dt = dt.expand(len(frequency), -1, -1).gather(-1, nearest)[..., 0]
        return dt[:, torch.arange(self.d_model, device=dt.device) % self.blocks]

    def _kernel_system(self) -> SharedParameters:
        """The parameters as they are."""
        return SharedParameters(
            self.A_log_real, self.A_imag, self.B, self.C, self.log_dt, weight=self.count, disc=self.disc
        )

    def _constants(self) -> tuple[Tensor, ...]:
        """What a step needs of the parameters: ``A, B, C, D``."""
        system = self._kernel_system().discretize(self.compute_dtype)
        return system.modes.transition.to(self.compute_dtype), system.B, system.C[0].mT, self.D

    def _advance(self, constants: tuple[Tensor, ...], u: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        A, B, C, D = constants
        x = times(A, state[None])[0] + u @ B
        return x @ C + D * u, x

    def system(self) -> DiagonalSystem:
        """The layer as it stands: a system of continuous time, in which one step takes one unit of time.

        Every mode has its own step; counting time in steps gives all of them the same.
        """
        dt = as_float64(self.log_dt).exp()
        Lambda = torch.complex(-as_float64(self.A_log_real).exp(), as_float64(self.A_imag)) * dt
        B = torch.view_as_complex(as_float64(self.B).contiguous()) * dt[:, None]
        C = torch.view_as_complex((as_float64(self.C[0]) * as_float64(self.count)[:, None] / 2).contiguous())
        return DiagonalSystem(
            torch.cat([Lambda, Lambda.conj()]),
            torch.cat([B, B.conj()]),
            torch.cat([C, C.conj()], -1),
            torch.diag(as_float64(self.D)),
        )


def _lecun(shape: tuple[int, ...], fan: int, draw: Draw) -> Tensor:
    """Variance ``1 / fan``, normal but for what lies beyond two standard deviations, which is drawn again."""
    x = draw.normal(*shape)
    while bool((outside := x.abs() > 2).any()):
        x = torch.where(outside, draw.normal(*shape), x)
    return x / (_SPREAD * fan**0.5)
