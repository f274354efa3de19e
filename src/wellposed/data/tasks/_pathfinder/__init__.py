"""The pictures of Pathfinder and Path-X: two dashed paths, two discs, and whether one path joins the discs."""

from wellposed.data.tasks._pathfinder._generate import Pictures, generate
from wellposed.data.tasks._pathfinder._parameters import PATHFINDER32, PATHX, Parameters

__all__ = ["PATHFINDER32", "PATHX", "Parameters", "Pictures", "generate"]
