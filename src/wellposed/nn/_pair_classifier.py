"""A class for each pair of sequences."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from wellposed.errors import ArgumentError, ShapeError
from wellposed.nn._heads import dense_head
from wellposed.nn._lengths import Lengths
from wellposed.nn._model_config import ModelConfig
from wellposed.nn._pooling import pool
from wellposed.nn._sequence_model import SequenceModel


class PairClassifier(SequenceModel):
    """Classes of pairs of sequences, both read by the same backbone: the retrieval task.

    With ``a`` and ``b`` the pooled vectors the scores are ``W_2 gelu(W_1 [a, b, a - b, a * b])``, where ``W_1`` maps
    from 4 to 1 times ``d_model`` and both have a bias; with ``head="relu"`` or ``"gelu"`` they are those of published
    baselines, of ``[a, b]`` alone. Batch norm takes its statistics over all sequences of all pairs.

    >>> model = PairClassifier(None, 2, vocabulary=98, layer="s5ptd", d_model=16, n_layers=2)
    >>> model(torch.randint(98, (4, 100)), torch.randint(98, (4, 80))).shape
    torch.Size([4, 2])
    """

    inputs = 2

    def forward(
        self,
        a: Tensor,
        b: Tensor,
        *,
        lengths_a: Tensor | Lengths | None = None,
        lengths_b: Tensor | Lengths | None = None,
    ) -> Float[Tensor, "batch d_output"]:
        """Scores before the softmax."""
        if a.shape[0] != b.shape[0]:
            raise ShapeError(f"a holds {a.shape[0]} sequences, b {b.shape[0]}: pairs need as many of each")
        true_a, true_b = self.backbone.true_lengths(a, lengths_a), self.backbone.true_lengths(b, lengths_b)
        x, lengths = _together(a, true_a, b, true_b)
        a, b = pool(self.backbone(x, lengths=lengths), lengths, self.pooling).chunk(2)
        compared = (a - b, a * b) if self.config.d_head is None else ()
        return self.head(torch.cat([a, b, *compared], -1))

    def _check_config(self, config: ModelConfig) -> None:
        if config.pooling == "none":
            raise ArgumentError(
                "pairs are compared as a whole: pooling must be 'mean', 'last', 'max', 'first' or 'cls'"
            )

    def _make_head(self, config: ModelConfig) -> nn.Module:
        size, dtype = config.d_model, config.dtype
        if config.d_head is not None:
            return dense_head(config, 2 * size, pairs=True)
        first, last = nn.Linear(4 * size, size, dtype=dtype), nn.Linear(size, config.d_output, dtype=dtype)
        return nn.Sequential(first, nn.GELU(), last)


def _together(
    a: Tensor, lengths_a: Lengths | None, b: Tensor, lengths_b: Lengths | None
) -> tuple[Tensor, Lengths | None]:
    """One batch, ``a`` above ``b``, the shorter one padded."""
    size = max(a.shape[1], b.shape[1])
    x = torch.cat([F.pad(t, [0, 0] * (t.ndim - 2) + [0, size - t.shape[1]]) for t in (a, b)])
    if lengths_a is None and lengths_b is None and a.shape[1] == b.shape[1]:
        return x, None
    values = [
        torch.full((len(t),), t.shape[1], device=t.device) if lengths is None else lengths.values
        for t, lengths in ((a, lengths_a), (b, lengths_b))
    ]
    return x, Lengths(torch.cat(values), size)
