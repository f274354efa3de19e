"""Every experiment runs, and every claim it makes comes out; the published records agree with a fresh run."""

import importlib
import inspect
from collections.abc import Callable
from pathlib import Path

import pytest

from wellposed.errors import ArgumentError, UnknownNameError
from wellposed.experiments import NAMES, Experiment, Result, get, load_record, pareto, run
from wellposed.report import verdicts

RESULTS = Path(__file__).parents[2] / "results"
OPTIMISED = ("gamma-tables", "pareto", "transfer-perturbation", "default-perturbation")
SLOW = (*OPTIMISED, "any-matrix", "decay-convergence", "resolvent-bound", "condition-vs-size")
SLOW += ("failure-modes", "robustness", "ablation", "lra", "certificates")


TRAINED = {
    "failure-modes": (0.01, 0.0),
    "robustness": (0.05, 2.0),
    "ablation": (1e-3, 2.0),
    "lra": (1e-9, 2.0),
    "certificates": (0.05, 1e-4),
}
"""On models, which other processors round differently: relative, and in points of accuracy on 100 to 500 sequences."""


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.slow if name in SLOW else ()) for name in NAMES])
def test_every_claim_comes_out_and_equals_the_published_record(name: str):
    """No claim differs, and the records in the repository were not edited by hand.

    Measured values agree with a fresh run to nine digits; to three where an optimiser decides when to stop, to two
    where models are fitted.
    """
    record, published = run(name), load_record(RESULTS / f"{name}.json")
    found = verdicts(record)
    assert found
    assert [v for v in found if v.word == "differs"] == []
    digits, points = TRAINED.get(name, (1e-3 if name in OPTIMISED else 1e-9, 0.0))
    for old, new in zip(published.claims, record.claims, strict=True):
        assert old.text == new.text
        assert old.measured == pytest.approx(new.measured, rel=digits, abs=digits * old.tolerance + points + 1e-12)
    assert published.provenance["commit"] != "unknown"
    assert record.provenance["seed"] == get(name).seed


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in NAMES if get(name).brief])
def test_what_is_left_out_for_speed_changes_no_verdict(name: str):
    record = run(name, brief=True)
    assert [v for v in verdicts(record) if v.word == "differs"] == []
    assert record.provenance["command"] == "wellposed reproduce"  # not what would make the whole of it


def test_the_paper_is_corrected_in_five_places():
    words = {name: [v.word for v in verdicts(load_record(RESULTS / f"{name}.json"))] for name in NAMES}
    corrected = {name for name in NAMES if "corrected" in words[name]}
    # Lemma 1's sign; 322.5 is the warped 325.43; the objective behind the tables; a number and a mean of table "LRA"
    assert corrected == {"transfer-function", "cosine-response", "gamma-tables", "lra"}
    assert words["lra"].count("corrected") == 2


def test_figure_one_keeps_every_spike_it_claims():
    """The curve that is drawn reaches the height of the last spike, which a plain grid would miss."""
    data = load_record(RESULTS / "transfer-function.json").data
    for curve, last in zip(data["G_Diag"], data["last_spikes"], strict=True):
        beyond = [m for w, m in zip(curve["omega"], curve["magnitude"], strict=True) if w > 0.9 * last["frequency"]]
        assert max(beyond) == pytest.approx(last["height"], rel=0.1)


@pytest.mark.parametrize("name", NAMES)
def test_an_experiment_that_draws_has_a_seed(name: str):
    """Gaussian perturbations and models are all that is random in them."""
    module = importlib.import_module(get(name).run.__module__)
    assert (get(name).seed is not None) == ("gaussian" in inspect.getsource(module) or name in TRAINED)


def test_the_seed_that_is_recorded_is_the_one_that_is_used(monkeypatch: pytest.MonkeyPatch):
    drawn: list[int] = []

    def draw(track: Callable, seed: int) -> Result:
        drawn.append(seed)
        return Result("", [], {})

    experiment = Experiment("title", "source", "paper", draw, seed=7)
    monkeypatch.setattr(pareto, "EXPERIMENT", experiment)
    assert run("pareto").provenance["seed"] == 7
    assert drawn == [7]


def test_a_seed_that_is_none_is_refused():
    with pytest.raises(ArgumentError, match=r"from 0 to 2\^63 - 1, got -1"):
        Experiment("title", "source", "paper", lambda track: Result("", [], {}), seed=-1)


def test_unknown_experiment_gets_a_suggestion():
    with pytest.raises(UnknownNameError, match="did you mean 'cosine-response'"):
        get("cosine-respons")
