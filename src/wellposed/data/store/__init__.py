"""Prepared tasks on disk: written by a builder, described by a manifest, found again or built anew.

Nothing here knows a particular task, or where its files come from.
"""

from wellposed.data.store._builder import Builder, Picked, Progress
from wellposed.data.store._builds import Build, builds
from wellposed.data.store._cache import prepare, read, splits, why_not
from wellposed.data.store._checksum import algorithm_of, checksum_of, verify
from wellposed.data.store._fields import check_fields, is_name
from wellposed.data.store._fingerprint import exists
from wellposed.data.store._manifest import FORMAT
from wellposed.data.store._shards import Part, make_parts

__all__ = [
    "FORMAT",
    "Build",
    "Builder",
    "Part",
    "Picked",
    "Progress",
    "algorithm_of",
    "builds",
    "check_fields",
    "checksum_of",
    "exists",
    "is_name",
    "make_parts",
    "prepare",
    "read",
    "splits",
    "verify",
    "why_not",
]
