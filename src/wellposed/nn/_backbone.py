"""What all models share: an encoder, blocks one after another, and a last norm."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jaxtyping import Float
from torch import Tensor, nn

from wellposed.errors import ArgumentError, ShapeError
from wellposed.nn._encoders import LevelEncoder, NumberEncoder, TokenEncoder
from wellposed.nn._entry import Entry
from wellposed.nn._fused import encoded, normalised
from wellposed.nn._layer_encoder import LayerEncoder
from wellposed.nn._layers import layer_factory
from wellposed.nn._lengths import Lengths, as_lengths
from wellposed.nn._model_config import ModelConfig
from wellposed.nn._norms import make_norm, normalise_step
from wellposed.nn._residual_block import ResidualBlock
from wellposed.nn._transformer_block import TransformerBlock

States = tuple[Tensor, ...]
"""The states of the layers, first to last; of a model that pools, what its pooling carries on comes after them."""
Step = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]


class Backbone(nn.Module):
    """``(batch, length)`` tokens or ``(batch, length, d_input)`` numbers to ``(batch, length, d_model)``.

    Lengths are looked at once, here, and handed to every layer.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.encoder = make_encoder(config)
        self.entry = self._make_entry(config)
        self.blocks = self._make_blocks(config)
        last = config.norm if config.prenorm and config.last_norm else "none"
        self.norm = make_norm(last, config.d_model, **config.norm_options, dtype=config.dtype)

    def _make_entry(self, config: ModelConfig) -> Entry | None:
        if config.positions == "none" and config.pooling != "cls":
            return None
        how = {"positions": config.positions, "max_length": config.max_length, "dropout": config.dropout}
        return Entry(config.d_model, cls=config.pooling == "cls", dtype=config.dtype, **how)

    def _make_blocks(self, config: ModelConfig) -> nn.ModuleList:
        make, around = layer_factory(config.layer, config.layer_options, config.dtype), vars(config.block)
        kind = ResidualBlock if config.d_ffn is None else TransformerBlock
        return nn.ModuleList(kind(make(config.d_model), **around) for _ in range(config.n_layers))

    def start_head(self, head: nn.Module) -> None:
        """How the maps behind it begin, where its authors say so; here as PyTorch's do."""

    def true_lengths(self, x: Tensor, lengths: Tensor | Lengths | None) -> Lengths | None:
        """The input checked, and its lengths."""
        self.encoder.check(x)
        return as_lengths(lengths, x.shape[0], x.shape[1], x.device)

    def forward(self, x: Tensor, *, lengths: Tensor | Lengths | None = None) -> Float[Tensor, "batch steps channel"]:
        """Vectors at every step, zero in the padding; with ``pooling="cls"`` that of the class vector before them."""
        h, true = self._begun(x, lengths)
        for block in self.blocks:
            h = block(h, lengths=true)
        return self._finished(h, true)

    def _begun(self, x: Tensor, lengths: Tensor | Lengths | None) -> tuple[Tensor, Lengths | None]:
        """What goes into the first block, and how long it is."""
        lengths = self.true_lengths(x, lengths)
        h = self._encoded(x, lengths)
        return (h, lengths) if self.entry is None else self.entry(h, lengths)

    def with_state(
        self, x: Tensor, *, lengths: Tensor | Lengths | None, state: States | None
    ) -> tuple[Float[Tensor, "batch length channel"], States]:
        """The same after an earlier call, and the states for the next."""
        self.check_streams("a state")
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
        self.check_streams("initial_state")
        return tuple(block.initial_state(batch) for block in self._blocks())

    def step(self, x: Tensor, state: States) -> tuple[Float[Tensor, "batch channel"], States]:
        """One step for every sequence of a batch."""
        self.check_streams("step")
        self.encoder.check(x[:, None])
        return self._step_with([block.step for block in self._blocks()], x, state)

    def stepper(self) -> Callable[[Tensor, States], tuple[Tensor, States]]:
        """``step`` for long streams: what depends on the parameters of the layers is computed once."""
        self.check_streams("stepper")
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

    def check_streams(self, what: str) -> None:
        """Refuse where a model needs to know more than a layer's state holds."""
        if isinstance(self.encoder, LayerEncoder):
            raise ArgumentError(f"{what} of a model with encoding='layer', which does not stream: use 'plain'")
        if self.entry is not None:
            has = "a class vector" if self.entry.kind == "none" else f"{self.entry.kind} positions"
            raise ArgumentError(
                f"{what} of a model with {has}, which does not stream: a step does not know its number; use "
                "positions='none', pooling='last' and layers that know the order of steps"
            )

    def _blocks(self) -> list[ResidualBlock | TransformerBlock]:
        blocks = [block for block in self.blocks if isinstance(block, ResidualBlock | TransformerBlock)]
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


def make_encoder(config: ModelConfig) -> TokenEncoder | NumberEncoder | LevelEncoder | LayerEncoder:
    """For tokens if there is a vocabulary, else for numbers."""
    d_input, vocabulary = config.d_input, config.vocabulary
    if (d_input is None) == (vocabulary is None):
        both = "neither" if d_input is None else "both"
        raise ArgumentError(f"give d_input (numbers a step) or vocabulary (how many tokens there are), not {both}")
    if config.encoding == "layer":
        return LayerEncoder(config)
    if config.encoding == "levels":
        if d_input != 1:
            what = f"{vocabulary} tokens" if d_input is None else f"{d_input} numbers a step"
            raise ArgumentError(f"encoding='levels' is for one number a step, these are {what}: leave it out")
        ends = {"lowest": config.lowest, "highest": config.highest}
        return LevelEncoder(config.levels, config.d_model, **ends, dtype=config.dtype)
    if vocabulary is not None:
        return TokenEncoder(vocabulary, config.d_model, padding_idx=config.padding_idx, dtype=config.dtype)
    assert d_input is not None
    if config.padding_idx is not None:
        raise ArgumentError("padding_idx is for tokens: give it with vocabulary, or pass lengths")
    return NumberEncoder(d_input, config.d_model, dtype=config.dtype)
