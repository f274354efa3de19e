"""Layers that take a sequence whole: they have no state between calls, and say so."""

from __future__ import annotations

from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from wellposed.errors import ArgumentError, ShapeError
from wellposed.nn._layer import SequenceLayer
from wellposed.nn._lengths import Lengths, as_lengths


class WholeSequenceLayer(SequenceLayer):
    """A layer without steps. Under autocast it computes in the lower precision, as attention does."""

    why_whole: ClassVar[str] = "it reads the future"
    """Why it cannot stream, for whoever asks it to."""

    def _attended(self, u: Tensor, lengths: Lengths | None) -> Tensor:
        """Outputs, everything checked and zero in the padding."""
        raise NotImplementedError

    @property
    def compute_dtype(self) -> torch.dtype:
        """That of the parameters."""
        first = self._first_parameter()
        return torch.get_default_dtype() if first is None else first.dtype

    @property
    def state_shape(self) -> tuple[int, ...]:
        """It has none."""
        self._check_forward("state_shape")
        raise NotImplementedError

    def forward(
        self,
        u: Float[Tensor, "batch length channel"],
        *,
        lengths: Tensor | Lengths | None = None,
        state: Tensor | None = None,
        return_state: bool = False,
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Whole sequences at once, in the precision of autocast where that is on."""
        self._check_input(u, 3, "(batch, length, d_model)")
        if u.shape[1] == 0:
            raise ShapeError("the sequences have length 0: there is nothing to compute")
        if state is not None or return_state:
            self._check_forward("a state")
        lengths = as_lengths(lengths, u.shape[0], u.shape[1], u.device)
        x = u.to(self.compute_dtype)
        if lengths is None:
            return self._attended(x, None).to(u.dtype)
        return lengths.zero(self._attended(lengths.zero(x), lengths)).to(u.dtype)

    def _sequence(
        self, u: Tensor, lengths: Lengths | None, state: Tensor | None, want_state: bool
    ) -> tuple[Tensor, Tensor | None]:
        return self._attended(u, lengths), None

    def _one_step(self, u: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        self._check_forward("step")
        raise NotImplementedError

    def _check_forward(self, what: str) -> None:
        raise ArgumentError(
            f"{what} of {type(self).__name__}, which does not stream: {self.why_whole}. Pass whole sequences, or use "
            "a layer that streams, such as S4PTD or SelfAttention(causal=True)"
        )
