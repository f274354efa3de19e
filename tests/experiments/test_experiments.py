"""Every experiment runs, and every claim it makes comes out; the published records agree with a fresh run."""

from pathlib import Path

import pytest

from wellposed.errors import UnknownNameError
from wellposed.experiments import NAMES, get, load_record, run
from wellposed.report import verdicts

RESULTS = Path(__file__).parents[2] / "results"
OPTIMISED = ("gamma-tables", "pareto", "transfer-perturbation", "default-perturbation")


@pytest.mark.parametrize("name", NAMES)
def test_every_claim_comes_out_and_equals_the_published_record(name: str):
    """No claim differs, and the records in the repository were not edited by hand.

    Measured values agree with a fresh run to nine digits; to three where an optimiser decides when to stop.
    """
    record, published = run(name), load_record(RESULTS / f"{name}.json")
    found = verdicts(record)
    assert found
    assert [v for v in found if v.word == "differs"] == []
    digits = 1e-3 if name in OPTIMISED else 1e-9
    for old, new in zip(published.claims, record.claims, strict=True):
        assert old.text == new.text
        assert old.measured == pytest.approx(new.measured, rel=digits, abs=digits * old.tolerance + 1e-12)
    assert published.provenance["commit"] != "unknown"


def test_the_paper_is_corrected_in_three_places():
    words = {name: [v.word for v in verdicts(load_record(RESULTS / f"{name}.json"))] for name in NAMES}
    corrected = {name for name in NAMES if "corrected" in words[name]}
    # Lemma 1's sign; 322.5 is the warped 325.43; the objective behind the tables
    assert corrected == {"transfer-function", "cosine-response", "gamma-tables"}


def test_figure_one_keeps_every_spike_it_claims():
    """The curve that is drawn reaches the height of the last spike, which a plain grid would miss."""
    data = load_record(RESULTS / "transfer-function.json").data
    for curve, last in zip(data["G_Diag"], data["last_spikes"], strict=True):
        beyond = [m for w, m in zip(curve["omega"], curve["magnitude"], strict=True) if w > 0.9 * last["frequency"]]
        assert max(beyond) == pytest.approx(last["height"], rel=0.1)


def test_unknown_experiment_gets_a_suggestion():
    with pytest.raises(UnknownNameError, match="did you mean 'cosine-response'"):
        get("cosine-respons")
