"""What all models share: an encoder, blocks one after another, and a last norm."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jaxtyping import Float
from torch import Tensor, nn

from wellposed.errors import ArgumentError, ShapeError
from wellposed.nn._encoders import encoder
from wellposed.nn._fused import encoded, normalised
from wellposed.nn._layers import layer_factory
from wellposed.nn._lengths import Lengths, as_lengths
from wellposed.nn._model_config import ModelConfig
from wellposed.nn._norms import make_norm, normalise_step
from wellposed.nn._residual_block import ResidualBlock

States = tuple[Tensor, ...]
"""The states of the layers, first to last; of a model that pools, what its pooling carries on comes after them."""
Step = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]


class Backbone(nn.Module):
    """``(batch, length)`` tokens or ``(batch, length, d_input)`` numbers to ``(batch, length, d_model)``.

    Lengths are looked at once, here, and handed to every layer.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        sizes = (config.d_input, config.vocabulary, config.d_model)
        self.encoder = encoder(*sizes, padding_idx=config.padding_idx, dtype=config.dtype)
        make, around = layer_factory(config.layer, config.layer_options, config.dtype), vars(config.block)
        self.blocks = nn.ModuleList(ResidualBlock(make(config.d_model), **around) for _ in range(config.n_layers))
        last = config.norm if config.prenorm else "none"
        self.norm = make_norm(last, config.d_model, momentum=config.norm_momentum, dtype=config.dtype)

    def true_lengths(self, x: Tensor, lengths: Tensor | Lengths | None) -> Lengths | None:
        """The input checked, and its lengths."""
        self.encoder.check(x)
        return as_lengths(lengths, x.shape[0], x.shape[1], x.device)

    def forward(self, x: Tensor, *, lengths: Tensor | Lengths | None = None) -> Float[Tensor, "batch length channel"]:
        """Vectors at every step, zero in the padding."""
        lengths = self.true_lengths(x, lengths)
        h = self._encoded(x, lengths)
        for block in self.blocks:
            h = block(h, lengths=lengths)
        return self._finished(h, lengths)

    def with_state(
        self, x: Tensor, *, lengths: Tensor | Lengths | None, state: States | None
    ) -> tuple[Float[Tensor, "batch length channel"], States]:
        """The same after an earlier call, and the states for the next."""
        lengths = self.true_lengths(x, lengths)
        h, states = self._encoded(x, lengths), []
        for block, before in zip(self.blocks, self._each(state), strict=True):
            h, after = block(h, lengths=lengths, state=before, return_state=True)
            states.append(after)
        return self._finished(h, lengths), tuple(states)

    def _encoded(self, x: Tensor, lengths: Lengths | None) -> Tensor:
        """In the memory layout that the blocks keep, so that they need not change it."""
        first = next(iter(self.blocks), None)
        return encoded(self.encoder, x, lengths, first.layer if isinstance(first, ResidualBlock) else None)

    def _finished(self, h: Tensor, lengths: Lengths | None) -> Tensor:
        return normalised(self.norm, h, lengths, inner=False)[0]

    def initial_state(self, batch: int) -> States:
        """The states before the first step."""
        return tuple(block.initial_state(batch) for block in self._blocks())

    def step(self, x: Tensor, state: States) -> tuple[Float[Tensor, "batch channel"], States]:
        """One step for every sequence of a batch."""
        self.encoder.check(x[:, None])
        return self._step_with([block.step for block in self._blocks()], x, state)

    def stepper(self) -> Callable[[Tensor, States], tuple[Tensor, States]]:
        """``step`` for long streams: what depends on the parameters of the layers is computed once."""
        steps = [block.stepper() for block in self._blocks()]
        return lambda x, state: self._step_with(steps, x, state)

    def _step_with(self, steps: list[Step], x: Tensor, state: States) -> tuple[Tensor, States]:
        h, states = self.encoder(x[:, None])[:, 0], []
        for step, before in zip(steps, self._each(state), strict=True):
            if before is None:
                raise ArgumentError("step continues a state, got None: begin with initial_state(batch)")
            h, after = step(h, before)
            states.append(after)
        return normalise_step(self.norm, h), tuple(states)

    def _blocks(self) -> list[ResidualBlock]:
        blocks = [block for block in self.blocks if isinstance(block, ResidualBlock)]
        assert len(blocks) == len(self.blocks)
        return blocks

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
