"""H-Transformer-1D: near pairs of steps exactly, far ones by the averages of their surroundings."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from wellposed._checks import positive_int
from wellposed.errors import ArgumentError
from wellposed.nn._config import built_from
from wellposed.nn._dot_product import join_heads
from wellposed.nn._hierarchy import Hierarchy, attend
from wellposed.nn._layer import keep_length
from wellposed.nn._lengths import Lengths
from wellposed.nn._seeded import seeded
from wellposed.nn._tied_dropout import checked_probability
from wellposed.nn._weights import xavier_
from wellposed.nn._whole_sequence import WholeSequenceLayer

_BIAS_STD = 0.1  # of the authors' relative bias


@dataclass(frozen=True)
class HierarchicalConfig:
    """What hierarchical attention takes."""

    d_model: int
    """Channels."""
    n_heads: int = 4
    """Heads, each of ``d_attention / n_heads`` channels."""
    _: KW_ONLY
    block: int = 16
    """Steps that see each other and their neighbours exactly, an even number; ``N_r`` in the paper."""
    d_attention: int | None = None
    """Channels of queries, keys and values, all heads together; ``d_model`` unless given."""
    causal: bool = False
    """Whether a step sees only itself and those before it."""
    relative_bias: bool = False
    """Whether scores have a learned part for each distance, ``4 block - 1`` a head, the same at every level."""
    bias: bool = True
    """Whether the linear maps have one."""
    dropout: float | int = 0.0
    """Of the attention weights."""
    xavier: bool = False
    """Whether weights start as in the Transformer of the Long Range Arena, not as PyTorch's linear maps do."""
    seed: int | None = None
    """The same weights whatever else draws random numbers."""
    device: Any = None
    dtype: torch.dtype | None = None

    def __post_init__(self) -> None:
        positive_int(self.d_model, "d_model")
        heads, name = positive_int(self.n_heads, "n_heads"), "d_model" if self.d_attention is None else "d_attention"
        if positive_int(self.width, name) % heads:
            raise ArgumentError(f"{name} = {self.width} must be a multiple of n_heads = {heads}")
        if positive_int(self.block, "block") % 2:
            raise ArgumentError(f"block = {self.block} must be even: a level joins the halves of two blocks")
        checked_probability(self.dropout)

    @property
    def width(self) -> int:
        """Channels of queries, keys and values."""
        return self.d_model if self.d_attention is None else self.d_attention


class HierarchicalAttention(WholeSequenceLayer):
    """Attention by levels (Zhu and Soricut, 2021): each pair of steps once, near ones exactly, far ones on average.

    At level ``l`` queries and keys are means over ``2^l`` steps, values sums, and blocks of ``block`` such means see
    the blocks beside them, less what the level below has seen. With ``S_l`` the scores at the first level at which
    the blocks of steps ``i`` and ``j`` touch, ``y_i = sum_j exp(S_l[i, j]) v_j / sum_j exp(S_l[i, j])``: softmax
    attention where scores of far pairs are those of their surroundings. Time and memory are proportional to
    ``length block``; any length will do. It knows no positions but those of ``relative_bias``.

    >>> layer = HierarchicalAttention(8, n_heads=2, block=4)
    >>> layer(torch.randn(2, 100, 8), lengths=torch.tensor([100, 60])).shape
    torch.Size([2, 100, 8])
    """

    why_whole: ClassVar[str] = "its averages are over stretches counted from the first step"

    @built_from(HierarchicalConfig)
    def __init__(self, config: HierarchicalConfig) -> None:
        super().__init__(config.d_model, bidirectional=not config.causal)
        self.n_heads, self.block, self.causal = config.n_heads, config.block, config.causal
        self.dropout = float(config.dropout)
        place = torch.get_default_device() if config.device is None else config.device
        with seeded(config.seed):
            self.qkv = nn.Linear(config.d_model, 3 * config.width, bias=config.bias, dtype=config.dtype)
            self.out = nn.Linear(config.width, config.d_model, bias=config.bias, dtype=config.dtype)
            if config.xavier:
                xavier_(self.qkv, parts=3)
                xavier_(self.out)
            self.relative_bias = None
            if config.relative_bias:
                start = torch.randn(config.n_heads, 4 * config.block - 1, dtype=config.dtype)
                self.relative_bias = nn.Parameter(_BIAS_STD * start)
        self.to(place)

    def undecayed_parameters(self) -> tuple[str, ...]:
        """A bias, if one of its own kind."""
        return () if self.relative_bias is None else ("relative_bias",)

    def _attended(self, u: Tensor, lengths: Lengths | None) -> Tensor:
        keep_length(u)  # which decides how many levels there are
        q, k, v = self.qkv(u).unflatten(-1, (3, self.n_heads, -1)).permute(2, 0, 3, 1, 4)
        how = Hierarchy(self.block, self.causal, self.dropout if self.training else 0.0)
        mask = None if lengths is None else lengths.mask
        return self.out(join_heads(attend(q, k, v, how, mask=mask, bias=self._bias_of_pairs())))

    def _bias_of_pairs(self) -> Float[Tensor, "head query key"] | None:
        """Of the steps of a block and those of the three blocks around it: entry ``j - i`` of the learned ones."""
        if self.relative_bias is None:
            return None
        size, device = self.block, self.relative_bias.device
        i, j = torch.arange(size, device=device), torch.arange(-size, 2 * size, device=device)
        return self.relative_bias[:, j - i[:, None] + 2 * size - 1]

    def extra_repr(self) -> str:
        """Sizes, as the constructor takes them."""
        return f"d_model={self.d_model}, n_heads={self.n_heads}, block={self.block}, causal={self.causal}"
