"""Liquid-S4: S4 with products of successive inputs as further inputs (Hasani et al., 2022)."""

from __future__ import annotations

from typing import Literal, Unpack

import torch
import torch.nn.functional as F
from torch import Tensor

from wellposed._checks import positive_int
from wellposed.errors import ArgumentError, UnknownNameError
from wellposed.nn._kernels import Bank, DenseBank
from wellposed.nn._lengths import Lengths
from wellposed.nn._s4 import S4
from wellposed.nn._siso import SISOOptions


class LiquidS4(S4):
    """S4 plus terms in ``u_t u_{t-1} ... u_{t-p+1}`` for ``p`` = 2 to ``degree``.

    ``kernel="kb"`` filters the product of order p by ``C A^t B^p``, ``"polyb"`` multiplies it by ``C B^p`` alone;
    powers of the discretised ``B`` are taken mode by mode. Both come from the linearised liquid time-constant cell
    ``x' = (A + B u) x + B u``, of whose products only those of neighbours are kept.

    Further options, the same for all of its kind: ``SISOOptions``.

    >>> LiquidS4(4, 64, kernel="kb", degree=3)(torch.randn(2, 100, 4)).shape
    torch.Size([2, 100, 4])
    """

    def __init__(
        self,
        d_model: int,
        d_state: int = 64,
        *,
        kernel: Literal["kb", "polyb"] = "polyb",
        degree: int = 2,
        hippo: str = "legs",
        **options: Unpack[SISOOptions],
    ) -> None:
        if kernel not in ("kb", "polyb"):
            raise UnknownNameError("kernel", kernel, ("kb", "polyb"))
        if positive_int(degree, "degree") < 2:
            raise ArgumentError(f"degree must be at least 2, got {degree}: without products this is S4")
        super().__init__(d_model, d_state, hippo=hippo, **options)
        self.kernel = kernel
        self.degree = degree

    @property
    def state_shape(self) -> tuple[int, ...]:
        """The state of S4, then the last ``degree - 1`` inputs, oldest first."""
        channels, states = super().state_shape
        return channels, states + self.degree - 1

    def _powers(self, bank: DenseBank) -> list[Tensor]:
        """``B, B^2, ...``, powers of complex numbers mode by mode, each ``(channel, state)``."""
        powers = [bank.B]
        for _ in range(self.degree - 1):
            (a, b), (re, im) = (t.unflatten(-1, (-1, 2)).unbind(-1) for t in (bank.B, powers[-1]))
            powers.append(torch.stack([a * re - b * im, a * im + b * re], -1).flatten(-2))
        return powers

    def _products(self, u: Tensor, past: Tensor | None) -> list[Tensor]:
        """``u_t, u_t u_{t-1}, ...`` along the last dimension; inputs before the first are ``past``, or zero."""
        length, lag = u.shape[-1], self.degree - 1
        whole = F.pad(u, (lag, 0)) if past is None else torch.cat([past, u], -1)
        products = [u]
        for back in range(1, self.degree):
            products.append(products[-1] * whole[..., lag - back : lag - back + length])
        return products

    def _run(self, bank: Bank, u: Tensor, state: Tensor | None, D: Tensor | None) -> tuple[Tensor, Tensor]:
        assert isinstance(bank, DenseBank)
        x, past = self._split(state)
        products, powers = self._products(u, past), self._powers(bank)
        y, last = super()._run(bank, u, x, D)
        for v, B in zip(products[1:], powers[1:], strict=True):
            if self.kernel == "kb":  # the same A and C: states add up
                more, extra = super()._run(DenseBank(bank.A, B, bank.C), v, None, None)
                y, last = y + more, last + extra
            else:
                y = y + (bank.C * B).sum(-1).to(u.dtype)[:, None, None] * v
        return y, torch.cat([last, self._recent(u, past)], -1)

    def _recent(self, u: Tensor, past: Tensor | None) -> Tensor:
        lag = self.degree - 1
        whole = F.pad(u, (lag, 0)) if past is None else torch.cat([past, u], -1)
        return whole[..., -lag:]

    def _split(self, state: Tensor | None) -> tuple[Tensor | None, Tensor | None]:
        if state is None:
            return None, None
        return state[..., : 1 - self.degree], state[..., 1 - self.degree :]

    def _state_at(self, u: Tensor, lengths: Lengths, state: Tensor | None) -> Tensor:
        """Products reach back into an earlier call, so each sequence's last inputs are put behind those."""
        x, past = self._split(state)
        if past is None:
            return super()._state_at(u, lengths, None)
        lag = self.degree - 1
        # Earlier inputs in front, then this call's, then zeros; all moved to the right end together.
        whole = torch.cat([past.transpose(1, 2), u], 1)
        moved = Lengths(lengths.values + lag, lengths.size + lag).to_the_right(whole)
        _, last = self._filter(moved, 0, None)
        bank = self.bank()
        assert x is not None
        old = self._older(past, bank)
        kept = bank.advance(x.transpose(0, 1) - old, lengths.values, lengths.size).transpose(0, 1)
        return torch.cat([last[..., : 1 - self.degree] + kept, last[..., 1 - self.degree :]], -1)

    def _older(self, past: Tensor, bank: Bank) -> Tensor:
        """What the earlier inputs alone, run from rest, leave in the state: it is in ``x`` already."""
        _, last = self._run(bank, past.transpose(0, 1), None, None)
        return last[..., : 1 - self.degree]

    def _constants(self) -> tuple[Tensor, ...]:
        """What a step needs of the parameters: those of S4, then the powers of ``B``."""
        bank = self.bank()
        assert isinstance(bank, DenseBank)
        return *super()._constants(), *(B.to(self.compute_dtype) for B in self._powers(bank)[1:])

    def _advance(self, constants: tuple[Tensor, ...], u: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        (x, past), C = self._split(state), constants[2]
        assert x is not None
        assert past is not None
        y, x = super()._advance(constants[:4], u, x)
        products = self._products(u[..., None], past)
        for product, B in zip(products[1:], constants[4:], strict=True):
            extra = product * B
            x = x + extra if self.kernel == "kb" else x
            y = y + (extra * C).sum(-1)
        return y, torch.cat([x, self._recent(u[..., None], past)], -1)
