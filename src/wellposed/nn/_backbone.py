"""What all models share: an encoder, blocks one after another, and a last norm."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from wellposed._checks import positive_int
from wellposed.errors import ArgumentError, ShapeError, UnknownNameError
from wellposed.nn._attention import SelfAttention
from wellposed.nn._blocks import GLU, Activation, ResidualBlock
from wellposed.nn._encoders import encoder
from wellposed.nn._layer import SequenceLayer
from wellposed.nn._lengths import Lengths, as_lengths
from wellposed.nn._liquid import LiquidS4
from wellposed.nn._norms import Norm, make_norm, normalise, normalise_step
from wellposed.nn._s4 import S4
from wellposed.nn._s4d import S4D, S4PTD
from wellposed.nn._s5 import S5, S5PTD

LAYERS: dict[str, Callable[..., SequenceLayer]] = {
    "s4": S4,
    "s4d": S4D,
    "s4ptd": S4PTD,
    "s5": S5,
    "s5ptd": S5PTD,
    "liquid-s4": LiquidS4,
    "attention": SelfAttention,
}

States = tuple[Tensor, ...]
"""The states of the layers, first to last."""


class Backbone(nn.Module):
    """``(batch, length)`` tokens or ``(batch, length, d_input)`` numbers to ``(batch, length, d_model)``.

    Lengths are looked at once, here, and handed to every layer.
    """

    def __init__(
        self,
        d_input: int | None,
        *,
        vocabulary: int | None,
        padding_idx: int | None,
        layer: str | Callable[..., SequenceLayer],
        layer_options: Mapping[str, Any],
        d_model: int,
        n_layers: int,
        norm: Norm,
        prenorm: bool,
        activation: Activation,
        glu: GLU,
        dropout: float | int,
        tied_dropout: bool,
        residual: bool,
        dtype: torch.dtype | None,
    ) -> None:
        super().__init__()
        d_model = positive_int(d_model, "d_model")
        self.encoder = encoder(d_input, vocabulary, d_model, padding_idx=padding_idx, dtype=dtype)
        make = layer_factory(layer, layer_options, dtype)
        self.blocks = nn.ModuleList(
            ResidualBlock(
                make(d_model),
                norm=norm,
                prenorm=prenorm,
                activation=activation,
                glu=glu,
                dropout=dropout,
                tied_dropout=tied_dropout,
                residual=residual,
            )
            for _ in range(positive_int(n_layers, "n_layers"))
        )
        self.norm = make_norm(norm if prenorm else "none", d_model, dtype=dtype)

    def known(self, x: Tensor, lengths: Tensor | Lengths | None) -> Lengths | None:
        """The input checked, and its lengths."""
        self.encoder.check(x)
        return as_lengths(lengths, x.shape[0], x.shape[1], x.device)

    def forward(self, x: Tensor, *, lengths: Tensor | Lengths | None = None) -> Float[Tensor, "batch length channel"]:
        """Vectors at every step, zero in the padding."""
        known = self.known(x, lengths)
        h = self.encoder(x, known)
        for block in self.blocks:
            h = block(h, lengths=known)
        return self._finished(h, known)

    def with_state(
        self, x: Tensor, *, lengths: Tensor | Lengths | None, state: States | None
    ) -> tuple[Float[Tensor, "batch length channel"], States]:
        """The same after an earlier call, and the states for the next."""
        known = self.known(x, lengths)
        h, states = self.encoder(x, known), []
        for block, before in zip(self.blocks, self._each(state), strict=True):
            h, after = block(h, lengths=known, state=before, return_state=True)
            states.append(after)
        return self._finished(h, known), tuple(states)

    def _finished(self, h: Tensor, known: Lengths | None) -> Tensor:
        h = normalise(self.norm, h, known)
        return h if known is None else known.zero(h)

    def initial_state(self, batch: int) -> States:
        """The states before the first step."""
        return tuple(self._block(i).initial_state(batch) for i in range(len(self.blocks)))

    def step(self, x: Tensor, state: States) -> tuple[Float[Tensor, "batch channel"], States]:
        """One step for every sequence of a batch."""
        x = x[:, None]
        self.encoder.check(x)
        h, states = self.encoder(x)[:, 0], []
        for i, before in enumerate(self._each(state)):
            if before is None:
                raise ArgumentError("step continues a state, got None: begin with initial_state(batch)")
            h, after = self._block(i).step(h, before)
            states.append(after)
        return normalise_step(self.norm, h), tuple(states)

    def _block(self, i: int) -> ResidualBlock:
        block = self.blocks[i]
        assert isinstance(block, ResidualBlock)
        return block

    def _each(self, state: Any) -> tuple[Tensor | None, ...]:
        if state is None:
            return (None,) * len(self.blocks)
        if isinstance(state, Tensor):
            raise ShapeError(f"state is one tensor; this model needs a tuple of {len(self.blocks)}, one for each layer")
        if len(state) != len(self.blocks):
            raise ShapeError(
                f"state holds {len(state)} tensors; this model has {len(self.blocks)} layers, one for each"
            )
        return state


def layer_name(layer: str | Callable[..., SequenceLayer]) -> str | Callable[..., SequenceLayer]:
    """The name of a class of the table; others as they are."""
    return next((name for name, known in LAYERS.items() if known is layer), layer)


def layer_factory(
    layer: str | Callable[..., SequenceLayer], options: Mapping[str, Any], dtype: torch.dtype | None
) -> Callable[[int], SequenceLayer]:
    """A layer by name or from the function given; seed, device and precision are the model's to choose."""
    for name in ("seed", "device", "dtype"):
        if name in options:
            raise ArgumentError(f"layer_options holds {name!r}: pass it to the model, which has several layers")
    if not isinstance(layer, str):
        return lambda d_model: layer(d_model, **options)
    if layer not in LAYERS:
        raise UnknownNameError("layer", layer, LAYERS)
    return lambda d_model: LAYERS[layer](d_model, dtype=dtype, **options)
