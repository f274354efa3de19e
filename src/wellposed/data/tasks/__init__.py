"""The tasks, one a module, and what a task is."""

from wellposed.data.tasks._task import Task, held_out
from wellposed.data.tasks.image import Image
from wellposed.data.tasks.listops import ListOps
from wellposed.data.tasks.pathfinder import Pathfinder
from wellposed.data.tasks.pathx import PathX
from wellposed.data.tasks.peerread import PeerRead
from wellposed.data.tasks.retrieval import Retrieval
from wellposed.data.tasks.scifar import SCIFAR
from wellposed.data.tasks.sinusoids import Sinusoids
from wellposed.data.tasks.smnist import SMNIST
from wellposed.data.tasks.text import Text
from wellposed.data.tasks.toy import Toy

__all__ = [
    "SCIFAR",
    "SMNIST",
    "Image",
    "ListOps",
    "PathX",
    "Pathfinder",
    "PeerRead",
    "Retrieval",
    "Sinusoids",
    "Task",
    "Text",
    "Toy",
    "held_out",
]
