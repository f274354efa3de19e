"""Luna's model: a short sequence that goes through all blocks beside the steps."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from wellposed._checks import positive_int
from wellposed.errors import ArgumentError
from wellposed.nn._backbone import Backbone
from wellposed.nn._encoders import NumberEncoder
from wellposed.nn._entry import Entry, sinusoids
from wellposed.nn._feed_forward import FeedForward
from wellposed.nn._lengths import Lengths
from wellposed.nn._luna import NORMAL_STD, LunaAttention
from wellposed.nn._model_config import ModelConfig
from wellposed.nn._tied_dropout import TiedDropout
from wellposed.nn._weights import normal_, xavier_

Sequences = Float[Tensor, "batch length channel"]
Packed = Float[Tensor, "batch row channel"]


class LunaBlock(nn.Module):
    """``X, P`` to ``LN(X1 + ffn(X1))`` and ``P + Y_P``, where ``X1 = LN(X + Y_X)``, dropout before every sum.

    The next block begins with ``LN(P + Y_P)``. Were that the end of this one, the last would have a norm that nobody
    reads, and training on several devices would wait for its gradient.
    """

    def __init__(self, layer: LunaAttention, config: ModelConfig) -> None:
        super().__init__()
        assert config.d_ffn is not None
        size, dtype = config.d_model, config.dtype
        self.layer = layer
        norms = (nn.LayerNorm(size, dtype=dtype) for _ in range(3))
        self.norm, self.norm_packed, self.norm_ffn = norms
        self.dropout = TiedDropout(config.dropout) if config.tied_dropout else nn.Dropout(float(config.dropout))
        self.ffn = FeedForward(
            size, config.d_ffn, activation=config.activation, dropout=nn.Identity(), dtype=config.dtype
        )

    def forward(self, x: Sequences, packed: Packed, lengths: Lengths | None) -> tuple[Sequences, Packed]:
        """Steps, zero in the padding, and the short sequence; what ``norm_packed`` made of it goes in."""
        y, y_packed = self.layer.attended(x, packed, lengths)
        h = self.norm(x + self.dropout(y))
        z = self.norm_ffn(h + self.dropout(self.ffn(h)))
        return z if lengths is None else lengths.zero(z), packed + self.dropout(y_packed)


class LunaBackbone(Backbone):
    """Vectors and ``P`` start as ``LN(sqrt(d) vectors + sinusoids)``; of ``P`` as many rows as there are steps."""

    def __init__(self, config: ModelConfig) -> None:
        if config.prenorm or config.norm != "layer":
            raise ArgumentError(
                f"Luna's blocks have a layer norm after every sum, got norm={config.norm!r}, prenorm={config.prenorm}: "
                "pass norm='layer', prenorm=False; or leave d_ffn out for blocks of this library around its attention"
            )
        super().__init__(config)
        size, options = config.d_model, config.layer_options
        rows = options.get("packed", 256)
        if rows is None:
            raise ArgumentError("packed = None: a Luna model needs its short sequence, such as packed=256")
        self._normal = options.get("init", "xavier") == "normal"
        std = NORMAL_STD if self._normal else size**-0.5
        self.packed = nn.Parameter(std * torch.randn(positive_int(rows, "packed"), size, dtype=config.dtype))
        if self._normal:
            normal_(self, NORMAL_STD)
        elif isinstance(self.encoder, nn.Embedding):
            normal_(self.encoder, std)

    def start_head(self, head: nn.Module) -> None:
        """As the other maps: normal where these are, else Xavier's."""
        if self._normal:
            normal_(head, NORMAL_STD)
            return
        for part in head.modules():
            if isinstance(part, nn.Linear):
                xavier_(part)

    def _make_entry(self, config: ModelConfig) -> Entry:
        # Vectors of numbers are of the size of the numbers; only looked-up ones start small.
        scale = 1.0 if isinstance(self.encoder, NumberEncoder) else config.d_model**0.5
        return Entry(
            config.d_model,
            cls=config.pooling == "cls",
            positions=config.positions,
            max_length=config.max_length,
            scale=scale,
            norm=True,
            dropout=config.dropout,
            dtype=config.dtype,
        )

    def _make_blocks(self, config: ModelConfig) -> nn.ModuleList:
        options = {**config.layer_options, "packed": None}
        layers = (LunaAttention(config.d_model, dtype=config.dtype, **options) for _ in range(config.n_layers))
        return nn.ModuleList(LunaBlock(layer, config) for layer in layers)

    def forward(self, x: Tensor, *, lengths: Tensor | Lengths | None = None) -> Float[Tensor, "batch steps channel"]:
        """Vectors at every step, zero in the padding."""
        assert self.entry is not None
        h, true = self._begun(x, lengths)
        rows, channels = self.packed.shape
        packed = LunaAttention.rows_for(h, channels**0.5 * self.packed + sinusoids(rows, channels, self.packed))
        blocks: Any = self.blocks
        for k, block in enumerate(blocks):
            packed = block.norm_packed(packed)
            h, packed = block(h, packed if k else self.entry.dropout(packed), true)
        return self._finished(h, true)

    def check_streams(self, what: str) -> None:
        """Never."""
        raise ArgumentError(f"{what} of a Luna model, which does not stream: {LunaAttention.why_whole}")
