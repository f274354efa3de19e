"""S5: one HiPPO matrix without its low-rank part for all channels."""

from __future__ import annotations

from wellposed._checks import positive_int
from wellposed.nn._config import built_from
from wellposed.nn._initial import blocks, normal_part
from wellposed.nn._mimo import MIMOConfig, MIMOLayer


class S5(MIMOLayer):
    """S5: HiPPO-LegS without its low-rank part, in ``blocks`` copies of size ``d_state / blocks``.

    >>> import torch
    >>> S5(4, 64, blocks=4)(torch.randn(2, 100, 4)).shape
    torch.Size([2, 100, 4])
    """

    @built_from(MIMOConfig)
    def __init__(self, config: MIMOConfig) -> None:
        size = positive_int(config.d_state or 0, "d_state") // config.blocks
        super().__init__(config, blocks(normal_part(size), config.blocks))
