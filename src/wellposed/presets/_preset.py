"""What a preset is: a name, a function that makes the config, and what is published of it."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass

from wellposed.train import RunConfig


@dataclass(frozen=True)
class Preset:
    """Call it for the config.

    >>> from wellposed.presets import PRESETS
    >>> PRESETS["lra-text-s5ptd"]().optimizer.lr, PRESETS["lra-text-s5ptd"].published
    (0.004, 89.41)
    """

    name: str
    make: Callable[[], RunConfig]
    published: float | None = None
    """Accuracy in per cent, where one is."""

    def __call__(self) -> RunConfig:
        """The config, under the name of the preset."""
        return self.make().replace(name=self.name)

    @property
    def about(self) -> str:
        """What its function says of it."""
        function = self.make.func if isinstance(self.make, functools.partial) else self.make
        return inspect.getdoc(function) or ""
