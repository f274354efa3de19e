"""What an experiment is: a figure or table of the paper, and what running it returns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from wellposed._checks import seed as checked_seed
from wellposed.experiments._campaign import Campaign
from wellposed.records import Claim


@dataclass(frozen=True)
class Result:
    """What the run of an experiment returns."""

    finding: str
    claims: list[Claim]
    data: dict[str, Any]


@dataclass(frozen=True)
class Experiment:
    """A figure or table of the paper and the function that computes it."""

    title: str
    source: str
    paper: str
    run: Callable[..., Result]
    """Takes a function that wraps its steps, for a progress bar, and then the seed if there is one."""
    seed: int | None = None
    """What its random numbers start from; ``None`` where nothing is random."""
    brief: Mapping[str, Any] = field(default_factory=dict)
    """Keywords for ``run`` that leave out what takes long, for those who run all experiments in one go."""

    full: Callable[[Campaign], Result] | None = None
    """Of experiments on trained models: the one at full size, which trains them where they are missing."""
    seeds: tuple[int, ...] = (0, 1, 2)
    """Of the runs of the full form, unless told otherwise."""

    def __post_init__(self) -> None:
        if self.seed is not None:
            checked_seed(self.seed)
