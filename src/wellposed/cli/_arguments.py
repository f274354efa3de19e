"""Kinds of arguments that several verbs take."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import tyro

Folder = Annotated[Path | None, tyro.conf.arg(metavar="DIR")]
File = Annotated[Path | None, tyro.conf.arg(metavar="FILE")]
Number = Annotated[float | None, tyro.conf.arg(metavar="FLOAT")]
Flag = Annotated[bool, tyro.conf.FlagCreatePairsOff]
"""Without its ``--no-`` form."""
