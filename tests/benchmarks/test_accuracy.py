from __future__ import annotations

import json
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
RECORD = json.loads((ROOT / "results" / "bench-accuracy.json").read_text(encoding="utf-8"))


def test_the_pages_show_what_was_measured():
    page = (ROOT / "docs" / "devdocs" / "pseudospectra.md").read_text(encoding="utf-8")
    for row in RECORD["pseudospectra"]:
        large, small = (f"{row[name]:.0e}".replace("e-0", "e-") for name in ("too_large", "too_small"))
        assert f"| {row['name']} | {large} | {small} |" in page
    for row in RECORD["cost"]:
        other = row["places"] * row["one_decomposition"]
        grid = f"{row['points']} × {row['points']}"
        assert f"| {row['name']} | {grid} | {row['seconds']:.1f} | {other:.0f} | {other / row['seconds']:.1f} |" in page


def test_the_page_on_condition_numbers_shows_what_was_measured():
    page = (ROOT / "docs" / "devdocs" / "condition.md").read_text(encoding="utf-8")
    about = re.sub(r"\s+", " ", page[page.index("On 112 random matrices") :])
    widths, balanced = RECORD["condition"]["widths"], RECORD["condition"]["balanced"]
    assert RECORD["condition"]["matrices"] == 112
    assert f"at most {100 * widths['largest']:.2f} % wide, {100 * widths['median']:.2f} % in the median" in about
    assert f"at most {100 * balanced['largest']:.0f} %, by {100 * balanced['median']:.1f} % in the median" in about
