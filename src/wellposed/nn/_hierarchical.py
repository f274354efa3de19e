"""H-Transformer-1D: near pairs of steps exactly, far ones by the averages of their surroundings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

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
from wellposed.nn._multi_head import MultiHeadConfig, projections
from wellposed.nn._seeded import seeded
from wellposed.nn._whole_sequence import WholeSequenceLayer

_BIAS_STD = 0.1  # of the authors' relative bias


@dataclass(frozen=True, kw_only=True)
class HierarchicalConfig(MultiHeadConfig):
    """What hierarchical attention takes besides."""

    block: int = 16
    """Steps that see each other and their neighbours exactly, an even number; ``N_r`` in the paper."""
    relative_bias: bool = False
    """Whether scores have a learned part for each distance, ``4 block - 1`` a head, the same at every level."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if positive_int(self.block, "block") % 2:
            raise ArgumentError(f"block = {self.block} must be even: a level joins the halves of two blocks")


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
        with seeded(config.seed):
            self.qkv, self.out = projections(config)
            self.relative_bias = None
            if config.relative_bias:
                start = torch.randn(config.n_heads, 4 * config.block - 1, dtype=config.dtype)
                self.relative_bias = nn.Parameter(_BIAS_STD * start)
        self.to(torch.get_default_device() if config.device is None else config.device)

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
