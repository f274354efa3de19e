"""Records: what an experiment found, what the paper says, and how it was made, as one JSON file."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from wellposed._files import write_whole
from wellposed.errors import RecordError

SCHEMA = 1
_NUMBER = re.compile(r"(?<![A-Za-z])\d")  # the 4 of S4 is none


@dataclass(frozen=True)
class Claim:
    """One number of ours beside what the paper says of it."""

    text: str
    measured: float
    expected: float
    """What a correct computation must give: the paper's number, or the corrected one, or a limit known in theory."""
    tolerance: float
    paper: str
    """What the paper prints, in its own terms."""
    kind: Literal["relative", "absolute", "at most", "at least"] = "relative"
    """How ``tolerance`` is meant; a one-sided claim may miss its bound by the relative tolerance."""
    erratum: str = ""
    """Where the paper slips: what is wrong in it and what is right."""

    @property
    def ours(self) -> bool:
        """Whether the number compared with is ours: the paper is silent, or says in words ("robust") what we bound."""
        silent = self.paper == "-" or self.paper.startswith("not stated")
        in_words = self.kind.startswith("at ") and not _NUMBER.search(self.paper)
        return silent or in_words


@dataclass(frozen=True)
class Record:
    """A result with its provenance."""

    experiment: str
    title: str
    source: str
    paper: str
    finding: str
    claims: list[Claim]
    data: dict[str, Any]
    provenance: dict[str, Any]
    schema: int = field(default=SCHEMA)


def save_record(record: Record, folder: Path) -> Path:
    """Write ``folder/NAME.json``, whole or not at all."""
    text = json.dumps(asdict(record), indent=1, allow_nan=False)
    return write_whole(folder / f"{record.experiment}.json", _compact(text) + "\n")


def _compact(text: str) -> str:
    """Put every list of numbers on one line, so that a record can be read and compared."""
    return re.sub(r"\[[-+\d.eE,\s]+\]", lambda found: f"[{' '.join(found[0][1:-1].split())}]", text)


def load_record(path: Path) -> Record:
    """Read a record back; says what is wrong with one that is damaged or of another version."""
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
        if raw["schema"] != SCHEMA:
            raise RecordError(
                f"{path} has schema {raw['schema']}, this version reads {SCHEMA}: run the experiment again"
            )
        return Record(**raw | {"claims": [Claim(**claim) for claim in raw["claims"]]})
    except FileNotFoundError:
        raise RecordError(f"there is no record {path}: run '{_command(path.stem)}' first") from None
    except (json.JSONDecodeError, KeyError, TypeError, UnicodeDecodeError) as error:
        remedy = f"restore it, or remove it and run '{_command(path.stem)}' again"
        raise RecordError(f"{path} is damaged ({error}): {remedy}") from None


def _command(name: str) -> str:
    """What makes a record of that name."""
    plain = name.removesuffix("-full")
    return f"wellposed reproduce {plain}" + (" --full --runs DIR" if plain != name else "")
