"""S4D: HiPPO without its low-rank part."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from wellposed._checks import positive_int
from wellposed.nn._config import built_from
from wellposed.nn._diagonal import DiagonalLayer
from wellposed.nn._initial import check_name, formula, normal_part
from wellposed.nn._siso import SISOConfig

_INITS = ("legs", "lin", "inv")


@dataclass(frozen=True, eq=False, kw_only=True)
class S4DConfig(SISOConfig):
    """What S4D takes."""

    init: Literal["legs", "lin", "inv"] = "legs"
    """HiPPO-LegS without its low-rank part, or S4D-Lin or S4D-Inv by their formulas."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_name("init", self.init, _INITS)


class S4D(DiagonalLayer):
    """S4D: HiPPO-LegS without its low-rank part, or the formulas ``"lin"`` and ``"inv"``.

    >>> import torch
    >>> layer = S4D(4, 64)
    >>> layer(torch.randn(2, 100, 4)).shape
    torch.Size([2, 100, 4])
    """

    @built_from(S4DConfig)
    def __init__(self, config: S4DConfig) -> None:
        n = positive_int(config.d_state or 0, "d_state")
        super().__init__(config, normal_part(n, config.scale) if config.init == "legs" else formula(config.init, n))
