"""The page is drawn from records alone and needs nothing but itself."""

import re
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser
from pathlib import Path
from statistics import fmean

import pytest

from wellposed.errors import RecordError, UnknownNameError
from wellposed.experiments import NAMES, get
from wellposed.experiments._registry import FULL
from wellposed.records import Claim, Record
from wellposed.report import read_records, save_bode, save_figures, verdicts
from wellposed.report._figures import FIGURES, figure_svg
from wellposed.report._maths import set_maths
from wellposed.report._opening import _sentence, headline, opening
from wellposed.report._verdicts import _verdict, tally

RESULTS = Path(__file__).parents[2] / "results"


@pytest.fixture(scope="module")
def page(published_page: Path) -> str:
    return published_page.read_text(encoding="utf-8")


def test_nothing_is_loaded_from_elsewhere(page: str):
    loaded = re.findall(r'(?:src|href)="([^"#][^"]*)"|url\(([^#)][^)]*)\)', page)
    # heat maps are images that stand in the page itself
    assert {a or b for a, b in loaded if not (a or b).startswith("data:image/png;base64,")} <= {"data:,"}
    assert "<script src" not in page


def test_every_id_is_used_once(page: str):
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    targets = set(re.findall(r'href="#([^"]+)"|url\(#([^)]+)\)', page))
    assert {a or b for a, b in targets} <= set(ids)


def test_tags_balance(page: str):
    void = {"meta", "link", "br"}
    stack: list[str] = []

    class Check(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list) -> None:
            if tag not in void:
                stack.append(tag)

        def handle_startendtag(self, tag: str, attrs: list) -> None:
            pass

        def handle_endtag(self, tag: str) -> None:
            assert stack.pop() == tag

    Check().feed(page)
    assert stack == []


def test_every_experiment_has_its_section_and_verdicts(page: str):
    for record in read_records(RESULTS):
        section = page[page.index(f'<section id="{record.experiment}">') :].split("</section>")[0]
        assert "<svg" in section
        assert record.provenance["command"] in section
        assert record.provenance["commit"] in section
        for verdict in verdicts(record):
            assert set_maths(verdict.measured) in section


def test_the_long_range_arena_has_its_ten_rows_with_their_sources(page: str):
    """What we have not trained is in brackets, and looks unlike what we have."""
    section = page[page.index('<section id="lra">') :].split("</section>")[0]
    rows = re.findall(r"<tr><td>([^<]*)</td>\s*(<td data-label=\"ListOps\".*?)</tr>", section, re.DOTALL)
    assert [model for model, _ in rows][:4] == ["Transformer", "Luna-256", "H-Transformer-1D", "CCNN"]
    assert len(rows) == 10
    for _, cells in rows:
        assert len(re.findall(r'<i class="published">\[(?:\d\d\.\d\d|✗)\]</i></td>', cells)) == 7
        assert re.search(r'<td data-label="source">[A-Z].* (?:20\d\d|paper)</td>', cells)
    assert "57.56 is a slip" in section
    assert "61.41 is the mean over five tasks" in section


def test_trained_models_say_where_they_were_trained(page: str):
    """Their record may have been put together elsewhere."""
    section = page[page.index('id="lra-full"') :]
    runs = _data(read_records(RESULTS), "lra-full")["runs"]
    assert f"<dt>trained</dt><dd>{len(runs)} runs on {runs[0]['hardware']}" in section


def test_a_verdict_is_the_arithmetic_it_claims():
    assert _verdict(Claim("x", 1.0009, 1.0, 1e-3, "1")).word == "reproduced"
    assert _verdict(Claim("x", 1.0011, 1.0, 1e-3, "1")).word == "differs"
    assert _verdict(Claim("x", 1.0, 1.0, 1e-3, "2", erratum="2 is a slip")).word == "corrected"
    assert _verdict(Claim("x", 3.0, 1.0, 1e-3, "2", erratum="2 is a slip")).word == "differs"
    assert _verdict(Claim("x", 0.01, 0.0, 0.02, "0", kind="absolute")).word == "reproduced"
    assert _verdict(Claim("x", -0.03, 0.0, 0.02, "0", kind="absolute")).word == "differs"
    assert _verdict(Claim("x", float("nan"), 1.0, 1e-3, "1")).word == "differs"
    assert _verdict(Claim("x", 0.9, 1.0, 0.0, "1", kind="at most")).word == "reproduced"
    assert _verdict(Claim("x", 1.1, 1.0, 0.0, "1", kind="at most")).word == "differs"
    assert _verdict(Claim("x", 1.1, 1.0, 0.0, "1", kind="at least")).word == "reproduced"
    assert _verdict(Claim("x", float("nan"), 1.0, 0.0, "1", kind="at least")).word == "differs"


def test_what_the_paper_does_not_say_is_ours():
    assert _verdict(Claim("x", 1.0, 1.0, 0.0, "-")).word == "ours"
    assert _verdict(Claim("x", 1.0, 1.0, 0.0, "not stated; some spectra are unstable")).word == "ours"
    assert _verdict(Claim("x", 2.0, 1.0, 0.0, "-")).word == "differs"
    # a word is no number: the bound that makes it one is ours; what it means exactly, or a figure shows, is the paper's
    assert _verdict(Claim("x", 1.0, 2.0, 0.0, "S4-PTD is robust", kind="at most")).word == "ours"
    assert _verdict(Claim("x", 1.0, 2.0, 0.0, "at most 2 ln n + 4", kind="at most")).word == "reproduced"
    assert _verdict(Claim("x", 0.0, 0.0, 0.1, "does not decay", kind="absolute")).word == "reproduced"


def test_the_page_opens_with_the_claim_a_picture_and_the_tally(page: str):
    records = read_records(RESULTS)
    head = page[page.index("<header>") : page.index("</header>")]
    first = opening(records)
    assert first is not None
    assert "<h1>One wave" in head
    assert "<svg" in head
    counts = tally(records)
    assert f"<b>{sum(len(r.claims) for r in records)} claims</b>" in head
    assert sum(counts.values()) == sum(len(r.claims) for r in records)
    for word, count in counts.items():
        assert f'<span class="{word}">{count} ' in head
    contents = page[page.index("<tbody>") : page.index("</tbody>")].split("<tr>")[1:]
    assert len(contents) == len(records)
    for row, record in zip(contents, records, strict=True):  # of unfinished experiments too
        assert ('class="differs"' in row) == (tally([record])["differs"] > 0)


def test_the_opening_says_how_far_seeds_differ_and_what_speaks_against_it():
    data = _data(read_records(RESULTS), "robustness-full")
    data["models"] = [m for m in data["models"] if m["learns"] == "C" and m["scale"] == "s4"]
    s4d, ptd = ([m for m in data["models"] if m["layer"] == layer] for layer in ("s4d", "s4ptd"))
    assert len(s4d) == len(ptd) > 1
    text = _sentence(data)
    for what in ("clean", "layer_noise"):
        assert all(f"{100 * fmean(m[what] for m in models):.1f} %" in text for models in (s4d, ptd))
    ends = sorted(100 * m["layer_noise"] for m in s4d)
    assert f"means of {len(s4d)} runs; those of S4D end between {ends[0]:.1f} % and {ends[-1]:.1f} %" in text
    cost = [100 * fmean(m["clean"] - m["input_noise"] for m in models) for models in (s4d, ptd)]
    assert f"it costs S4D {cost[0]:.1f} points and S4-PTD {cost[1]:.1f}" in text
    data["models"] = [m for m in data["models"] if m["seed"] == 0]
    assert "(one run of each)" in _sentence(data)


def test_without_trained_models_the_page_opens_with_the_theory():
    theory = [record for record in read_records(RESULTS) if record.experiment == "transfer-perturbation"]
    first = opening(theory)
    assert first is not None
    assert "PTD" in first.claim
    assert opening([]) is None
    assert headline([]) is None


def _data(records: list[Record], name: str) -> dict:
    return next(record.data for record in records if record.experiment == name)


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("kappa(V)^2 + gamma ||E||_F", "κ(<var>V</var>)<sup>2</sup> + γ ‖<var>E</var>‖<sub>F</sub>"),
        ("||A_H^-1||^2 at n = 8", "‖<var>A</var><sub>H</sub><sup>−1</sup>‖<sup>2</sup> at <var>n</var> = 8"),
        ("|G_S4D - G_S4|", "|<var>G</var><sub>S4D</sub> − <var>G</var><sub>S4</sub>|"),
        ("8.08768e-05 <= 1e-4", "8.08768\u00a0×\u00a010<sup>−5</sup> ≤ 10<sup>−4</sup>"),
        ("A cosine of S4D's, for 40 s, at s = -1", "A cosine of S4D's, for 40 s, at <var>s</var> = −1"),
        ("S4-PTD & <b>", "S4-PTD &amp; &lt;b&gt;"),
    ],
)
def test_maths_is_set_and_prose_is_left(text: str, html: str):
    assert set_maths(text) == html


def test_text_and_figures_use_the_same_names(page: str):
    for other in (
        "G_Diag",
        "Diag</sub>",
        "DPLR",
        "diagonal system",
        "gaussian",
        "rank-one",
        "||",
        "kappa(",
        ">listops<",
    ):
        assert other not in page, other
    for name in ("level ‖E‖ of each", "mean of 3 seeds"):
        assert name in page, name


@pytest.mark.slow
def test_figures_are_svg_files_for_light_and_dark(tmp_path: Path):
    paths = save_figures(read_records(RESULTS), tmp_path)
    assert {p.stem for p in paths if not p.stem.endswith(FULL)} == {*NAMES, "headline"}
    for path in paths:
        text = path.read_text(encoding="utf-8")
        ElementTree.fromstring(text)
        assert "prefers-color-scheme" in text
        assert "currentColor" in text


def test_every_experiment_has_a_drawing_in_the_order_of_the_paper():
    assert tuple(name for name in FIGURES if not name.endswith(FULL)) == NAMES
    assert {name for name in FIGURES if name.endswith(FULL)} == {f"{name}{FULL}" for name in NAMES if get(name).full}
    found = [record.experiment for record in read_records(RESULTS)]
    assert [name for name in found if not name.endswith(FULL)] == list(NAMES)


def test_missing_records_say_what_to_run(tmp_path: Path):
    with pytest.raises(RecordError, match="run 'wellposed reproduce' first"):
        read_records(tmp_path / "none")
    with pytest.raises(RecordError, match="holds no record"):
        read_records(tmp_path)
    with pytest.raises(UnknownNameError, match="did you mean"):
        figure_svg("cosine-respose", {})


def test_bode_refuses_what_it_cannot_write(tmp_path: Path):
    with pytest.raises(RecordError, match=r"\.txt"):
        save_bode(tmp_path / "bode.txt", [1.0], {"a": [1 + 0j]})
    with pytest.raises(RecordError, match="no folder"):
        save_bode(tmp_path / "no" / "bode.png", [1.0], {"a": [1 + 0j]})
    for ending in ("png", "svg", "pdf"):
        assert save_bode(tmp_path / f"bode.{ending}", [1.0, 2.0], {"a": [1 + 0j, 0.5j]}).stat().st_size > 1000
