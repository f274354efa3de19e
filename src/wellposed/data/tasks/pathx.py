"""Path-X: Pathfinder on 128 x 128 pixels, 16,384 steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from wellposed.data.tasks._pathfinder import PATHX, Parameters
from wellposed.data.tasks.pathfinder import Pathfinder


@dataclass(frozen=True)
class PathX(Pathfinder):
    """The Long Range Arena's Path-X: as Pathfinder, on 128 x 128 pixels."""

    name: ClassVar[str] = "pathx"
    title: ClassVar[str] = "two dots, one path or two? 128 x 128 pixels"
    pictures: ClassVar[Parameters] = PATHX
    budget: ClassVar[int] = 35
