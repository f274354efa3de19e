"""Liquid-S4: S4 with products of successive inputs as further inputs (Hasani et al., 2022)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from wellposed import kernels
from wellposed._checks import positive_int
from wellposed.errors import ArgumentError
from wellposed.kernels import DenseRecurrence, LowRankRecurrence, Work, reverse, take_steps
from wellposed.nn._config import built_from
from wellposed.nn._initial import check_name
from wellposed.nn._lengths import Lengths
from wellposed.nn._s4 import S4, S4Config

_KERNELS = ("kb", "polyb")


@dataclass(frozen=True, eq=False, kw_only=True)
class LiquidS4Config(S4Config):
    """What Liquid-S4 takes."""

    kernel: Literal["kb", "polyb"] = "polyb"
    """Whether products are filtered (``"kb"``) or only weighed (``"polyb"``)."""
    degree: int = 2
    """Inputs in a product at most."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_name("kernel", self.kernel, _KERNELS)
        if positive_int(self.degree, "degree") < 2:
            raise ArgumentError(f"degree must be at least 2, got {self.degree}: without products this is S4")


class LiquidS4(S4):
    """S4 plus terms in ``u_t u_{t-1} ... u_{t-p+1}`` for ``p`` = 2 to ``degree``.

    ``kernel="kb"`` filters the product of order p by ``C A^t B^p``, ``"polyb"`` multiplies it by ``C B^p`` alone;
    powers of the discretised ``B`` are taken mode by mode. Both come from the linearised liquid time-constant cell
    ``x' = (A + B u) x + B u``, of whose products only those of neighbours are kept.

    >>> LiquidS4(4, 64, kernel="kb", degree=3)(torch.randn(2, 100, 4)).shape
    torch.Size([2, 100, 4])
    """

    takes_bfloat16 = False  # products of inputs would be rounded once more

    @built_from(LiquidS4Config)
    def __init__(self, config: LiquidS4Config) -> None:
        shared = {name: getattr(config, name) for name in S4Config.__dataclass_fields__ if name != "_"}
        super().__init__(**shared)
        self.kernel = config.kernel
        self.degree = config.degree

    @property
    def state_shape(self) -> tuple[int, ...]:
        """The state of S4, then the last ``degree - 1`` inputs, oldest first."""
        channels, states = super().state_shape
        return channels, states + self.degree - 1

    def _powers(self, system: LowRankRecurrence | DenseRecurrence) -> list[Tensor]:
        """``B, B^2, ...``, powers of complex numbers mode by mode, each ``(channel, state)``."""
        powers = [system.B]
        for _ in range(self.degree - 1):
            (a, b), (re, im) = (t.unflatten(-1, (-1, 2)).unbind(-1) for t in (system.B, powers[-1]))
            powers.append(torch.stack([a * re - b * im, a * im + b * re], -1).flatten(-2))
        return powers

    def _with_past(self, u: Tensor, state: Tensor | None) -> Tensor:
        """``(batch, lag + length, channel)``: the inputs just before this call, zero before the first, and its own."""
        if state is None:
            return F.pad(u, (0, 0, self.degree - 1, 0))
        return torch.cat([state[..., 1 - self.degree :].transpose(1, 2), u], 1)

    def _products(self, whole: Tensor) -> list[Tensor]:
        """``u_t, u_t u_{t-1}, ...`` at the steps of this call."""
        lag = self.degree - 1
        length = whole.shape[1] - lag
        products = [whole[:, lag:]]
        for back in range(1, self.degree):
            products.append(products[-1] * whole[:, lag - back : lag - back + length])
        return products

    def _sequence(
        self, u: Tensor, lengths: Lengths | None, state: Tensor | None, want_state: bool
    ) -> tuple[Tensor, Tensor | None]:
        """Each direction has products of its own: a neighbour in time is another one seen from the end."""
        values, system = None if lengths is None else lengths.values, self._kernel_system().discretize()
        y, last = self._filter(replace(system, C=system.C[:1]), u, values, state, want_state, self.D)
        if self.bidirectional:
            reverse_C = replace(system, C=system.C[1:])
            back, _ = self._filter(reverse_C, reverse(u, values), values, None, want_state=False, D=None)
            y = y + reverse(back, values)
        return y, last

    def _filter(
        self,
        system: LowRankRecurrence | DenseRecurrence,
        u: Tensor,
        lengths: Tensor | None,
        state: Tensor | None,
        want_state: bool,
        D: Tensor | None,
    ) -> tuple[Tensor, Tensor | None]:
        whole = self._with_past(u, state)
        x = None if state is None else state[..., : 1 - self.degree]
        products, powers = self._products(whole), self._powers(system)
        if self.kernel == "kb":  # the same A and C: further inputs of one system
            system, u = replace(system, B=torch.stack(powers, -1)), torch.cat(products, 2)
        y, last = kernels.run(Work(system, u, D, x, lengths, want_state), self.mode)
        if self.kernel == "polyb":
            for v, B in zip(products[1:], powers[1:], strict=True):
                y = y + (system.C[0] * B).sum(-1).to(u.dtype) * v
        return y, None if last is None else torch.cat([last, self._recent(whole, lengths)], -1)

    def _recent(self, whole: Tensor, lengths: Tensor | None) -> Tensor:
        """The last ``degree - 1`` inputs before each sequence's end, ``(batch, channel, lag)``."""
        lag = self.degree - 1
        if lengths is None:
            return whole[:, -lag:].transpose(1, 2)
        return take_steps(whole, lengths[:, None] + torch.arange(lag, device=whole.device)).transpose(1, 2)

    def _constants(self) -> tuple[Tensor, ...]:
        """What a step needs of the parameters: those of S4, then the powers of ``B``."""
        powers = self._powers(self._kernel_system().discretize())[1:]
        return *super()._constants(), *(B.to(self.compute_dtype) for B in powers)

    def _advance(self, constants: tuple[Tensor, ...], u: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        C, whole = constants[2], self._with_past(u[:, None], state)
        y, x = super()._advance(constants[:4], u, state[..., : 1 - self.degree])
        for product, B in zip(self._products(whole)[1:], constants[4:], strict=True):
            extra = product[:, 0, :, None] * B
            x = x + extra if self.kernel == "kb" else x
            y = y + (extra * C).sum(-1)
        return y, torch.cat([x, self._recent(whole, None)], -1)
