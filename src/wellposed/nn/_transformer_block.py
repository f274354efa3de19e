"""The block of a Transformer around any sequence layer: the layer, then a feed-forward network, a way around each."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from jaxtyping import Float
from torch import Tensor, nn

from wellposed.errors import ArgumentError
from wellposed.nn._config import built_from
from wellposed.nn._feed_forward import FeedForward
from wellposed.nn._layer import SequenceLayer
from wellposed.nn._lengths import Lengths, as_lengths
from wellposed.nn._norms import make_norm, normalise, normalise_step
from wellposed.nn._residual_block import BlockArguments
from wellposed.nn._seeded import seeded
from wellposed.nn._tied_dropout import TiedDropout

Step = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]


class TransformerBlock(nn.Module):
    """``x <- x + dropout(layer(norm(x)))``, then ``x <- x + dropout(ffn(norm(x)))``, of width ``d_ffn``.

    Without ``prenorm`` the norms come after the sums. The feed-forward network has the block's activation and one more
    dropout after it. Options that are not a Transformer's (``glu``, ``residual``) have no effect. It streams if its
    layer does. All options: ``BlockConfig``.

    >>> import torch
    >>> from wellposed.nn import SelfAttention
    >>> block = TransformerBlock(SelfAttention(8, 2), d_ffn=32, dropout=0.1, tied_dropout=False)
    >>> block(torch.randn(2, 100, 8), lengths=torch.tensor([100, 60])).shape
    torch.Size([2, 100, 8])
    """

    @built_from(BlockArguments)
    def __init__(self, config: BlockArguments) -> None:
        super().__init__()
        layer = config.layer
        if not isinstance(layer, SequenceLayer):
            raise ArgumentError(f"a block is built around a sequence layer, got {type(layer).__name__}")
        if config.d_ffn is None:
            raise ArgumentError("a Transformer's block has a feed-forward network: give its width, d_ffn")
        self.layer, self.prenorm = layer, config.prenorm
        first, size = next(layer.parameters()), layer.d_model
        norms = (make_norm(config.norm, size, **config.norm_options, dtype=first.dtype) for _ in range(2))
        self.norm, self.norm_ffn = norms
        self.dropout = TiedDropout(config.dropout) if config.tied_dropout else nn.Dropout(float(config.dropout))
        with seeded(config.seed):
            how = {"activation": config.activation, "dropout": self.dropout, "dtype": first.dtype}
            self.ffn = FeedForward(size, config.d_ffn, **how)
        self.to(first.device)

    def forward(
        self,
        u: Float[Tensor, "batch length channel"],
        *,
        lengths: Tensor | Lengths | None = None,
        state: Tensor | None = None,
        return_state: bool = False,
    ) -> Tensor | tuple[Tensor, Tensor]:
        """As of the layer: outputs in the padding are zero, and a state continues an earlier call."""
        self.layer._check_input(u, 3, "(batch, length, d_model)")
        lengths = as_lengths(lengths, u.shape[0], u.shape[1], u.device)
        u = u if lengths is None else lengths.zero(u)
        x = normalise(self.norm, u, lengths) if self.prenorm else u
        found = self.layer(x, lengths=lengths, state=state, return_state=return_state)
        z = self._after(u, found[0] if return_state else found, lambda norm, x: normalise(norm, x, lengths))
        z = z if lengths is None else lengths.zero(z)
        return (z, found[1]) if return_state else z

    def _after(self, u: Tensor, y: Tensor, norm: Callable[[nn.Module, Tensor], Tensor]) -> Tensor:
        h = u + self.dropout(y)
        if self.prenorm:
            return h + self.dropout(self.ffn(norm(self.norm_ffn, h)))
        h = norm(self.norm, h)
        return norm(self.norm_ffn, h + self.dropout(self.ffn(h)))

    def initial_state(self, batch: int) -> Tensor:
        """That of the layer."""
        return self.layer.initial_state(batch)

    def step(self, u: Float[Tensor, "batch channel"], state: Tensor) -> tuple[Tensor, Tensor]:
        """One step for every sequence of a batch: output and next state. Meant for eval mode."""
        return self._step_with(self.layer.step, u, state)

    def stepper(self) -> Step:
        """``step`` for long streams."""
        step = self.layer.stepper()
        return lambda u, state: self._step_with(step, u, state)

    def _step_with(self, step: Step, u: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        if isinstance(self.dropout, TiedDropout) and self.dropout.p > 0 and self.training:
            raise ArgumentError("step in training with dropout tied over time: a step knows no mask; use eval()")
        y, state = step(normalise_step(self.norm, u) if self.prenorm else u, state)
        return self._after(u, y, normalise_step), state

    def extra_repr(self) -> str:
        """How the parts are put together."""
        return f"prenorm={self.prenorm}, d_ffn={cast(nn.Linear, self.ffn.first).out_features}"
