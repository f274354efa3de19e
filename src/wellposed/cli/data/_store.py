"""The one place where the command line looks behind the names that ``wellposed.data`` publishes."""

from __future__ import annotations

from wellposed.data._cache import read as read_split
from wellposed.data._cache import why_not
from wellposed.data._manifest import read as read_manifest

__all__ = ["read_manifest", "read_split", "why_not"]
