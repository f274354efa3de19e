"""Every experiment runs, and every claim it makes comes out; the published records agree with a fresh run."""

from functools import cache
from pathlib import Path

import pytest

from wellposed.errors import UnknownNameError
from wellposed.experiments import NAMES, Record, get, load_record, run
from wellposed.report import verdicts

RESULTS = Path(__file__).parents[2] / "results"


@cache
def fresh(name: str) -> Record:
    return run(name)


@pytest.mark.parametrize("name", NAMES)
def test_every_claim_comes_out(name: str):
    found = verdicts(fresh(name))
    assert found
    assert [v for v in found if v.word == "differs"] == []


@pytest.mark.parametrize("name", NAMES)
def test_published_record_is_what_the_code_computes(name: str):
    """Results in the repository were not edited by hand: measured values agree to nine digits on another machine."""
    published = load_record(RESULTS / f"{name}.json")
    for old, new in zip(published.claims, fresh(name).claims, strict=True):
        assert old.text == new.text
        assert old.measured == pytest.approx(new.measured, rel=1e-9, abs=1e-12)
    assert published.provenance["commit"] != "unknown"


def test_the_paper_is_corrected_in_two_places():
    words = {name: [v.word for v in verdicts(fresh(name))] for name in NAMES}
    assert "corrected" in words["transfer-function"]  # Lemma 1's sign
    assert "corrected" in words["cosine-response"]  # 322.5 is the warped 325.43


def test_figure_one_keeps_every_spike_it_claims():
    """The curve that is drawn reaches the height of the last spike, which a plain grid would miss."""
    data = fresh("transfer-function").data
    for curve, last in zip(data["G_Diag"], data["last_spikes"], strict=True):
        beyond = [m for w, m in zip(curve["omega"], curve["magnitude"], strict=True) if w > 0.9 * last["frequency"]]
        assert max(beyond) == pytest.approx(last["height"], rel=0.1)


def test_unknown_experiment_gets_a_suggestion():
    with pytest.raises(UnknownNameError, match="did you mean 'cosine-response'"):
        get("cosine-respons")
