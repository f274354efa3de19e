"""A sequence layer made ready for a deep network: norm, activation, gate, dropout and the way around them."""

from __future__ import annotations

from typing import Any, Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from wellposed.errors import ArgumentError, UnknownNameError
from wellposed.nn._layer import SequenceLayer
from wellposed.nn._lengths import Lengths, as_lengths
from wellposed.nn._norms import Norm, make_norm, normalise, normalise_step
from wellposed.nn._seeded import seeded

Activation = Literal["gelu", "gelu_tanh", "none"]
GLU = Literal["full", "half", "half2", "none"]
_ACTIVATIONS = ("gelu", "gelu_tanh", "none")
_GLUS = ("full", "half", "half2", "none")


class TiedDropout(nn.Module):
    """Dropout with one mask for all steps: a channel of a sequence is kept or dropped as a whole.

    >>> TiedDropout(0.5)(torch.ones(2, 100, 4)).shape
    torch.Size([2, 100, 4])
    """

    def __init__(self, p: float | int) -> None:
        super().__init__()
        self.p = _probability(p)

    def forward(self, x: Float[Tensor, "batch *length channel"]) -> Float[Tensor, "batch *length channel"]:
        """The same sequences in eval mode."""
        if not self.training or self.p == 0:
            return x
        mask = torch.ones(x.shape[0], *[1] * (x.ndim - 2), x.shape[-1], dtype=x.dtype, device=x.device)
        return x * F.dropout(mask, self.p)

    def extra_repr(self) -> str:
        """The probability."""
        return f"p={self.p}"


class ResidualBlock(nn.Module):
    """norm, layer, activation, dropout, gate, dropout, and the input added; the norm comes last without ``prenorm``.

    With ``y`` the output of the layer and ``x = dropout(activation(y))`` the gates are, W and V with a bias each:

    - ``"full"``: ``W x * sigmoid(V x)``, as in S4, S4D, S4-PTD; S5's ``full_glu``.
    - ``"half"``: ``x * sigmoid(W x)``, S5's ``half_glu1``.
    - ``"half2"``: ``y * sigmoid(W x)``, S5's ``half_glu2``: only what enters the gate is activated.
    - ``"none"``: ``x``, S5's ``gelu``; channels of an S4 layer then never meet.

    S5 uses ``activation="gelu_tanh"``, the approximate GELU. ``tied_dropout`` shares a mask over time.

    >>> from wellposed.nn import S4PTD
    >>> block = ResidualBlock(S4PTD(4, 64), norm="batch", glu="half")
    >>> block(torch.randn(2, 100, 4), lengths=torch.tensor([100, 60])).shape
    torch.Size([2, 100, 4])
    """

    def __init__(
        self,
        layer: SequenceLayer,
        *,
        norm: Norm = "layer",
        prenorm: bool = True,
        activation: Activation = "gelu",
        glu: GLU = "full",
        dropout: float | int = 0.0,
        tied_dropout: bool = True,
        residual: bool = True,
        seed: int | None = None,
    ) -> None:
        super().__init__()
        if not isinstance(layer, SequenceLayer):
            raise ArgumentError(f"a block is built around a sequence layer such as S4PTD, got {type(layer).__name__}")
        for kind, name, known in (("activation", activation, _ACTIVATIONS), ("glu", glu, _GLUS)):
            if name not in known:
                raise UnknownNameError(kind, name, known)
        self.layer = layer
        self.prenorm = prenorm
        self.activation: Activation = activation
        self.glu: GLU = glu
        self.residual = residual
        first, d_model = next(layer.parameters()), layer.d_model
        self.norm = make_norm(norm, d_model, device=first.device, dtype=first.dtype)
        self.dropout = TiedDropout(dropout) if tied_dropout else nn.Dropout(_probability(dropout))
        if glu != "none":
            with seeded(seed):
                self.mix = nn.Linear(d_model, 2 * d_model if glu == "full" else d_model, dtype=first.dtype)
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
        known = as_lengths(lengths, u.shape[0], u.shape[1], u.device)
        u = u if known is None else known.zero(u)
        x = normalise(self.norm, u, known) if self.prenorm else u
        found = self.layer(x, lengths=known, state=state, return_state=return_state)
        z = self._around(u, found[0] if return_state else found)
        z = z if self.prenorm else normalise(self.norm, z, known)
        z = z if known is None else known.zero(z)
        return (z, found[1]) if return_state else z

    def initial_state(self, batch: int) -> Tensor:
        """That of the layer."""
        return self.layer.initial_state(batch)

    def step(self, u: Float[Tensor, "batch channel"], state: Tensor) -> tuple[Tensor, Tensor]:
        """One step for every sequence of a batch: output and next state. Meant for eval mode."""
        if isinstance(self.dropout, TiedDropout) and self.dropout.p > 0 and self.training:
            raise ArgumentError("step in training with dropout tied over time: a step knows no mask; use eval()")
        self._check_input(u, 2, "(batch, d_model)")
        x = normalise_step(self.norm, u) if self.prenorm else u
        y, state = self.layer.step(x, state)
        z = self._around(u, y)
        return z if self.prenorm else normalise_step(self.norm, z), state

    def _check_input(self, u: Any, ndim: int, shape: str) -> None:
        """As the layer does, before the norm meets it; without autocast nothing converts what is not alike."""
        self.layer._check_input(u, ndim, shape)
        own = next(self.layer.parameters()).dtype
        if u.dtype != own and not torch.is_autocast_enabled(u.device.type):
            raise ArgumentError(f"the sequence is {u.dtype}, this block {own}: convert one of them, or use autocast")

    def _around(self, u: Tensor, y: Tensor) -> Tensor:
        """What follows the layer, and the input added."""
        z = self._gated(y)
        return u + z if self.residual else z

    def _gated(self, y: Tensor) -> Tensor:
        x = self.dropout(self._activated(y))
        if self.glu == "none":
            return x
        if self.glu == "full":
            return self.dropout(F.glu(self.mix(x), -1))
        return self.dropout((y if self.glu == "half2" else x) * self.mix(x).sigmoid())

    def _activated(self, y: Tensor) -> Tensor:
        if self.activation == "none":
            return y
        return F.gelu(y, approximate="none" if self.activation == "gelu" else "tanh")

    def extra_repr(self) -> str:
        """How the parts are put together."""
        text = f"prenorm={self.prenorm}, activation={self.activation!r}, glu={self.glu!r}"
        return text + ("" if self.residual else ", residual=False")


def _probability(p: float | int) -> float:
    if not 0 <= p < 1:
        raise ArgumentError(f"dropout must be at least 0 and below 1, got {p}")
    return float(p)
