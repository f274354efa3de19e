"""A sequence layer made ready for a deep network: norm, activation, gate, dropout and the way around them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from wellposed.errors import ArgumentError
from wellposed.kernels.layout import to_channels_last
from wellposed.nn._block_config import Activation, BlockConfig
from wellposed.nn._config import built_from
from wellposed.nn._feed_forward import activated
from wellposed.nn._fused import gated, laid_out, normalised, normalised_into
from wellposed.nn._layer import SequenceLayer
from wellposed.nn._lengths import Lengths, as_lengths
from wellposed.nn._norms import make_norm, normalise_step
from wellposed.nn._seeded import seeded
from wellposed.nn._tied_dropout import TiedDropout
from wellposed.nn._weights import he_


@dataclass(frozen=True, kw_only=True)
class BlockArguments(BlockConfig):
    """What a block is built from: its options, and the layer they stand around."""

    layer: SequenceLayer = field(kw_only=False)
    seed: int | None = None
    """The same weights whatever else draws random numbers."""


class ResidualBlock(nn.Module):
    """norm, layer, activation, dropout, gate, dropout, and the input added; the norm comes last without ``prenorm``.

    With ``y`` the output of the layer and ``x = dropout(activation(y))`` the gates are, W and V with a bias each:

    - ``"full"``: ``W x * sigmoid(V x)``, as in S4, S4D, S4-PTD; S5's ``full_glu``.
    - ``"half"``: ``x * sigmoid(W x)``, S5's ``half_glu1``.
    - ``"half2"``: ``y * sigmoid(W x)``, S5's ``half_glu2``: only what enters the gate is activated.
    - ``"linear"``: ``activation(W x)``, as in CCNN; no gate, and no dropout after it.
    - ``"none"``: ``x``, S5's ``gelu``; channels of an S4 layer then never meet.

    S5 uses ``activation="gelu_tanh"``, the approximate GELU. ``tied_dropout`` shares a mask over time. All options:
    ``BlockConfig``.

    >>> from wellposed.nn import S4PTD
    >>> block = ResidualBlock(S4PTD(4, 64), norm="batch", glu="half")
    >>> block(torch.randn(2, 100, 4), lengths=torch.tensor([100, 60])).shape
    torch.Size([2, 100, 4])
    """

    @built_from(BlockArguments)
    def __init__(self, config: BlockArguments) -> None:
        super().__init__()
        layer = config.layer
        if not isinstance(layer, SequenceLayer):
            raise ArgumentError(f"a block is built around a sequence layer such as S4PTD, got {type(layer).__name__}")
        if config.d_ffn is not None:
            raise ArgumentError(f"d_ffn = {config.d_ffn}: this block has no feed-forward network, TransformerBlock has")
        self.layer = layer
        self.prenorm = config.prenorm
        self.activation: Activation = config.activation
        self.glu = config.glu
        self.residual = config.residual
        first, d_model = next(layer.parameters()), layer.d_model
        place = {"device": first.device, "dtype": first.dtype}
        self.norm = make_norm(config.norm, d_model, **config.norm_options, **place)
        self.dropout = TiedDropout(config.dropout) if config.tied_dropout else nn.Dropout(float(config.dropout))
        if config.glu != "none":
            with seeded(config.seed):
                self.mix = nn.Linear(d_model, 2 * d_model if config.glu == "full" else d_model, dtype=first.dtype)
                if config.glu == "linear":
                    he_(self.mix)  # as CCNN does
            self.mix.to(first.device)

    def forward(
        self,
        u: Float[Tensor, "batch length channel"],
        *,
        lengths: Tensor | Lengths | None = None,
        state: Tensor | None = None,
        return_state: bool = False,
    ) -> Tensor | tuple[Tensor, Tensor]:
        """As of the layer: outputs in the padding are zero, and a state continues an earlier call."""
        self._check_input(u, 3, "(batch, length, d_model)")
        lengths = as_lengths(lengths, u.shape[0], u.shape[1], u.device)
        laid = h = laid_out(u, self.layer)
        alone = self.prenorm and state is None and not return_state
        if alone and (both := normalised_into(self.norm, self.layer, h, lengths)):
            found, h = both
        else:
            x, h = self._before(h, lengths)
            found = self.layer(x, lengths=lengths, state=state, return_state=return_state)
        z = self._after(h, found[0] if return_state else found, lengths)
        z = z if self.prenorm else normalised(self.norm, z, lengths, inner=False)[0]
        z = z if laid is u else to_channels_last(z)
        return (z, found[1]) if return_state else z

    def _before(self, u: Tensor, lengths: Lengths | None) -> tuple[Tensor, Tensor]:
        """What goes into the layer, and ``u`` for the way around; zero in the padding."""
        if self.prenorm:
            return normalised(self.norm, u, lengths, inner=True)
        u = u if lengths is None else lengths.zero(u)
        return u, u

    def initial_state(self, batch: int) -> Tensor:
        """That of the layer."""
        return self.layer.initial_state(batch)

    def step(self, u: Float[Tensor, "batch channel"], state: Tensor) -> tuple[Tensor, Tensor]:
        """One step for every sequence of a batch: output and next state. Meant for eval mode."""
        self._check_input(u, 2, "(batch, d_model)")
        return self._step_with(self.layer.step, u, state)

    def stepper(self) -> Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]:
        """``step`` for long streams: what depends on the parameters of the layer is computed once, nothing checked."""
        step = self.layer.stepper()
        return lambda u, state: self._step_with(step, u, state)

    def _step_with(
        self, step: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]], u: Tensor, state: Tensor
    ) -> tuple[Tensor, Tensor]:
        if isinstance(self.dropout, TiedDropout) and self.dropout.p > 0 and self.training:
            raise ArgumentError("step in training with dropout tied over time: a step knows no mask; use eval()")
        x = normalise_step(self.norm, u) if self.prenorm else u
        y, state = step(x, state)
        z = self._around(u, y)
        return z if self.prenorm else normalise_step(self.norm, z), state

    def _check_input(self, u: Any, ndim: int, shape: str) -> None:
        """As the layer does, before the norm meets it; without autocast nothing converts what is not alike."""
        self.layer._check_input(u, ndim, shape)
        own = next(self.layer.parameters()).dtype
        if u.dtype != own and not torch.is_autocast_enabled(u.device.type):
            raise ArgumentError(f"the sequence is {u.dtype}, this block {own}: convert one of them, or use autocast")

    def _after(self, u: Tensor, y: Tensor, lengths: Lengths | None) -> Tensor:
        """What follows the layer, and the input added; zero in the padding."""
        z = gated(
            y,
            u,
            None if self.glu == "none" else self.mix,
            self.dropout,
            activation=self.activation,
            glu=self.glu,
            residual=self.residual,
            lengths=lengths,
        )
        if z is None:
            z = self._around(u, y)
            z = z if lengths is None else lengths.zero(z)
        return z

    def _around(self, u: Tensor, y: Tensor) -> Tensor:
        """The same by modules, which may be anybody's; of whole sequences or of one step."""
        z = self._gated(y)
        return u + z if self.residual else z

    def _gated(self, y: Tensor) -> Tensor:
        x = self.dropout(self._activated(y))
        if self.glu == "none":
            return x
        if self.glu == "linear":
            return self._activated(self.mix(x))
        if self.glu == "full":
            return self.dropout(F.glu(self.mix(x), -1))
        return self.dropout((y if self.glu == "half2" else x) * self.mix(x).sigmoid())

    def _activated(self, y: Tensor) -> Tensor:
        return activated(y, self.activation)

    def extra_repr(self) -> str:
        """How the parts are put together."""
        text = f"prenorm={self.prenorm}, activation={self.activation!r}, glu={self.glu!r}"
        return text + ("" if self.residual else ", residual=False")
