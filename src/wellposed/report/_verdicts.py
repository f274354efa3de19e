"""What a claim comes to: our number beside the paper's."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass

from wellposed.records import Claim, Record


@dataclass(frozen=True)
class Verdict:
    """One line of the comparison, in words."""

    text: str
    paper: str
    measured: str
    expected: str
    difference: str
    word: str
    """"reproduced", "corrected" (the paper slips, and the right value comes out), "ours" (the paper gives no number,
    and what we expect comes out) or "differs"."""
    erratum: str


def verdicts(record: Record) -> list[Verdict]:
    """One verdict for every claim of a record."""
    return [_verdict(claim) for claim in record.claims]


def _verdict(claim: Claim) -> Verdict:
    gap = _gap(claim)
    good = gap <= claim.tolerance
    return Verdict(
        text=claim.text,
        paper=claim.paper,
        measured=f"{claim.measured:.6g}",
        expected=f"{claim.kind} {claim.expected:.6g}" if claim.kind.startswith("at ") else f"{claim.expected:.6g}",
        difference=_difference(claim, gap),
        word=_word(claim) if good else "differs",
        erratum=claim.erratum,
    )


def _word(claim: Claim) -> str:
    return "corrected" if claim.erratum else "ours" if claim.ours else "reproduced"


def _gap(claim: Claim) -> float:
    """How far the measured value is from what is expected, in the unit of the tolerance."""
    over = claim.measured - claim.expected
    gap = {"at most": max(over, 0.0), "at least": max(-over, 0.0)}.get(claim.kind, abs(over))
    if math.isnan(over):
        return math.nan
    return gap if claim.kind == "absolute" or claim.expected == 0 else gap / abs(claim.expected)


def _difference(claim: Claim, gap: float) -> str:
    if claim.kind.startswith("at "):
        return "met" if gap == 0 else f"{gap:.1%}"
    if gap == 0:
        return "0"
    return f"{gap:.1%}" if claim.kind == "relative" and gap >= 1e-3 else f"{gap:.0e}"


def overall(record: Record) -> str:
    """The verdict on a whole experiment: the worst of its claims, once all its runs are there."""
    if record.data.get("missing"):
        return "unfinished"
    words = {verdict.word for verdict in verdicts(record)}
    return next((word for word in ("differs", "corrected", "reproduced", "ours") if word in words), "differs")


def tally(records: list[Record]) -> dict[str, int]:
    """How many claims there are of each verdict."""
    count = Counter(verdict.word for record in records for verdict in verdicts(record))
    return {word: count[word] for word in ("reproduced", "corrected", "ours", "differs")}
