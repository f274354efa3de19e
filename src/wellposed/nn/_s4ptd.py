"""S4-PTD: the whole HiPPO matrix, perturbed and diagonalised."""

from __future__ import annotations

from dataclasses import dataclass, field

from wellposed.nn._config import built_from
from wellposed.nn._diagonal import DiagonalLayer
from wellposed.nn._initial import perturbed
from wellposed.nn._perturbation import PerturbationConfig
from wellposed.nn._siso import SISOConfig


@dataclass(frozen=True, eq=False, kw_only=True)
class S4PTDConfig(PerturbationConfig, SISOConfig):
    """What S4-PTD takes."""

    d_state: int | None = field(default=None, kw_only=False)
    """States of each channel's system; 64 unless the matrix or the perturbation says otherwise."""


class S4PTD(DiagonalLayer):
    """S4-PTD: the whole HiPPO matrix, perturbed by a hair and diagonalised. As fast as S4D, as robust as S4.

    The size of the perturbation is set by ``rel`` (0.1 if nothing is said) or ``cond``, or ready made in
    ``perturbation``; ``hippo`` names the matrix or gives ``(A, B)``.

    >>> import torch
    >>> layer = S4PTD(4, 64, rel=0.05)
    >>> y, state = layer(torch.randn(2, 100, 4), return_state=True)
    >>> y, state = layer.step(torch.randn(2, 4), state)
    >>> y.shape
    torch.Size([2, 4])
    """

    @built_from(S4PTDConfig)
    def __init__(self, config: S4PTDConfig) -> None:
        modes = perturbed(
            config.hippo,
            config.d_state,
            config.perturbation,
            config.rel,
            config.cond,
            scale=config.scale,
            gamma=config.gamma,
            method=config.method,
            columns=config.columns,
        )
        super().__init__(config, modes)
