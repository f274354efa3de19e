"""S5-PTD: one perturbed HiPPO matrix for all channels."""

from __future__ import annotations

from dataclasses import dataclass, field

from wellposed.nn._config import built_from
from wellposed.nn._initial import SCALES, Scale, blocks, check_name, perturbed
from wellposed.nn._mimo import MIMOConfig, MIMOLayer
from wellposed.nn._perturbation import PerturbationConfig


@dataclass(frozen=True, eq=False, kw_only=True)
class S5PTDConfig(PerturbationConfig, MIMOConfig):
    """What S5-PTD takes."""

    d_state: int | None = field(default=None, kw_only=False)
    """States of all blocks together; 64 unless the matrix or the perturbation says otherwise."""
    scale: Scale = "paper"
    """Of time for LegT and FouT: as in the paper, or as in the published code of S4 (``hippo``)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_name("scale", self.scale, SCALES)


class S5PTD(MIMOLayer):
    """S5-PTD: the whole HiPPO matrix, perturbed and diagonalised, in ``blocks`` copies of size ``d_state / blocks``.

    The perturbation is real, so eigenvalues come in pairs and half the states suffice. Of ``hippo=(A, B)`` only ``A``
    is used: the input matrix of an S5 layer is drawn.

    >>> import torch
    >>> S5PTD(4, 64, blocks=4, rel=0.05)(torch.randn(2, 100, 4)).shape
    torch.Size([2, 100, 4])
    """

    @built_from(S5PTDConfig)
    def __init__(self, config: S5PTDConfig) -> None:
        states = config.d_state
        if states is None and isinstance(config.hippo, str) and config.perturbation is None:
            states = 64
        size = None if states is None else states // config.blocks
        modes = perturbed(
            config.hippo,
            size,
            config.perturbation,
            config.rel,
            config.cond,
            scale=config.scale,
            gamma=config.gamma,
            method=config.method,
            columns=config.columns,
        )
        super().__init__(config, blocks(modes, config.blocks))
