"""What a claim comes to: our number beside the paper's."""

from __future__ import annotations

from dataclasses import dataclass

from wellposed.experiments import Claim, Record


@dataclass(frozen=True)
class Verdict:
    """One line of the comparison, in words."""

    text: str
    paper: str
    measured: str
    expected: str
    difference: str
    word: str
    """"reproduced", "corrected" (the paper slips, and the right value comes out) or "differs"."""
    erratum: str


def verdicts(record: Record) -> list[Verdict]:
    """One verdict for every claim of a record."""
    return [_verdict(claim) for claim in record.claims]


def _verdict(claim: Claim) -> Verdict:
    gap = abs(claim.measured - claim.expected)
    relative = claim.kind == "relative"
    gap = gap / abs(claim.expected) if relative else gap
    good = gap <= claim.tolerance
    return Verdict(
        text=claim.text,
        paper=claim.paper,
        measured=f"{claim.measured:.6g}",
        expected=f"{claim.expected:.6g}",
        difference=f"{gap:.1%}" if relative and gap >= 1e-3 else f"{gap:.0e}",
        word=("corrected" if claim.erratum else "reproduced") if good else "differs",
        erratum=claim.erratum,
    )


def overall(record: Record) -> str:
    """The verdict on a whole experiment: the worst of its claims."""
    words = {verdict.word for verdict in verdicts(record)}
    return "differs" if "differs" in words else "corrected" if "corrected" in words else "reproduced"
