"""Training that begins with weights of another run, or of a saved model."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from training_toys import MODEL, config, course, slopes, splits, weights
from wellposed.errors import ArgumentError, RecordError
from wellposed.nn import SequenceClassifier
from wellposed.presets import preset
from wellposed.presets._fingerprint import fingerprint
from wellposed.train import EvaluationConfig, load_run, run, sweep
from wellposed.train import _loop as loop
from wellposed.train._start import begin_with_weights

QUIET: Any = {"device": "cpu", "progress": False}
BATCH_NORM = {**MODEL, "norm": "batch"}


@pytest.fixture(scope="module")
def earlier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run, whose model has statistics too."""
    folder = tmp_path_factory.mktemp("earlier") / "first"
    run(config(model=BATCH_NORM, seed=5, name="first"), folder, datasets=splits(), **QUIET)
    return folder


def initial(folder: Path) -> dict[str, Tensor]:
    """What a run began with."""
    return load_run(folder).model_at(0).state_dict()


def test_a_run_begins_with_the_model_of_another(earlier: Path, tmp_path: Path):
    """Statistics of batch norm included; its record says whose weights they were."""
    run(config(model=BATCH_NORM, start=str(earlier)), tmp_path / "second", datasets=splits(), **QUIET)
    before = load_run(earlier).model().state_dict()
    begun = initial(tmp_path / "second")
    assert before.keys() == begun.keys()
    assert all(torch.equal(before[name], begun[name]) for name in before)
    told = json.loads((tmp_path / "second" / "record.json").read_text())["data"]["start"]
    assert told["folder"] == str(earlier)
    assert told["sha256"] == json.loads((earlier / "final" / "config.json").read_text())["sha256"]
    assert (told["preset"], told["seed"], told["epochs"], told["task"]) == ("first", 5, 3, "toys")


def test_runs_that_begin_with_one_another_tell_of_all(earlier: Path, tmp_path: Path):
    run(config(model=BATCH_NORM, start=str(earlier)), tmp_path / "second", datasets=splits(), **QUIET)
    run(config(model=BATCH_NORM, start=str(tmp_path / "second")), tmp_path / "third", datasets=splits(), **QUIET)
    told = json.loads((tmp_path / "third" / "record.json").read_text())["data"]["start"]
    assert told["start"]["folder"] == str(earlier)
    assert "start" not in told["start"]


def test_a_saved_model_is_a_beginning_too(tmp_path: Path):
    model = SequenceClassifier(d_input=1, d_output=2, seed=9, **MODEL)
    model.save_pretrained(tmp_path / "model")
    run(config(start=str(tmp_path / "model")), tmp_path / "run", datasets=splits(), **QUIET)
    begun = initial(tmp_path / "run")
    assert all(torch.equal(t, begun[name]) for name, t in model.state_dict().items())


def test_a_model_that_travels_is_a_beginning_by_its_name():
    settings = preset("lra-pathfinder-s5ptd-small").replace(start="lra-pathfinder-s5ptd-small")
    net = SequenceClassifier(d_input=1, d_output=2, **settings.model)
    about = begin_with_weights(net, settings)
    assert (about["folder"], about["task"], about["options"]) == (settings.start, "pathfinder", {"source": "generated"})
    assert about["before"][0]["name"] == "pathfinder-easy-alone"
    stored = SequenceClassifier.from_pretrained("lra-pathfinder-s5ptd-small").float().state_dict()
    assert all(torch.equal(t, stored[name]) for name, t in net.state_dict().items())


def test_parts_may_be_drawn_anew(earlier: Path, tmp_path: Path):
    """Numbers instead of classes: the head is the one that training would have begun with alone."""
    plain = config(model=BATCH_NORM)
    run(plain, tmp_path / "alone", datasets=splits(slopes), **QUIET)
    settings = plain.replace(start=str(earlier), start_except=("head",))
    run(settings, tmp_path / "tuned", datasets=splits(slopes), **QUIET)
    alone, begun, before = initial(tmp_path / "alone"), initial(tmp_path / "tuned"), load_run(earlier).model()
    for name, t in begun.items():
        assert torch.equal(t, alone[name] if name.startswith("head.") else before.state_dict()[name]), name


def test_a_run_that_goes_on_needs_the_first_one_no_more(earlier: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    copy = shutil.copytree(earlier, tmp_path / "copy")
    settings = config(model=BATCH_NORM, start=str(copy))
    run(settings, tmp_path / "whole", datasets=splits(), **QUIET)
    with monkeypatch.context() as patch:
        left = iter([False] * 3 + [True] * 1000)
        patch.setattr(loop, "_passed", lambda deadline: next(left))
        run(settings, tmp_path / "slices", datasets=splits(), **QUIET)
    shutil.rmtree(copy)
    assert run(settings, tmp_path / "slices", datasets=splits(), **QUIET).finished
    assert weights(tmp_path / "slices") == weights(tmp_path / "whole")
    assert course(tmp_path / "slices") == course(tmp_path / "whole")


def test_another_model_is_refused_by_name(earlier: Path, tmp_path: Path):
    wider = config(model={**BATCH_NORM, "d_model": 6}, start=str(earlier))
    with pytest.raises(ArgumentError, match=r"backbone.encoder.weight is 6 x 1 here, 4 x 1 there, .* and \d+ more"):
        run(wider, tmp_path / "run", datasets=splits(), **QUIET)
    with pytest.raises(ArgumentError, match=r"running_mean is missing here, 4 there.* start_except"):
        run(config(start=str(earlier)), tmp_path / "run", datasets=splits(), **QUIET)
    settings = config(model=BATCH_NORM, start=str(earlier), start_except=("decoder",))
    with pytest.raises(ArgumentError, match=r"no part 'decoder'; it has backbone.encoder, backbone.blocks, .*head"):
        run(settings, tmp_path / "run", datasets=splits(), **QUIET)


def test_a_folder_without_weights_is_refused_before_anything_is_lost(earlier: Path, tmp_path: Path):
    with pytest.raises(
        RecordError, match=r"start = '.*nowhere' holds neither a run nor a saved model: name.*lra-listops-s5ptd"
    ):
        run(config(start=str(tmp_path / "nowhere")), tmp_path / "run", datasets=splits(), **QUIET)
    own = shutil.copytree(earlier, tmp_path / "own")
    with pytest.raises(ArgumentError, match=r"lies in .*own, where this run goes"):
        run(config(start=str(own / "final")), own, datasets=splits(), resume=False, **QUIET)
    assert load_run(own).finished
    with pytest.raises(RecordError, match=r"start = '.*nowhere' holds neither"):
        run(config(start=str(tmp_path / "nowhere")), own, datasets=splits(), resume=False, **QUIET)
    assert load_run(own).finished


@pytest.mark.parametrize("layer", ["s4d", "s4", "s4ptd", "s5", "s5ptd"])
@pytest.mark.parametrize("sizes", [(8, 16), (16, 15)])
def test_another_number_of_states_is_refused(tmp_path: Path, layer: str, sizes: tuple[int, int]):
    """Not told by shapes alone: a perturbed matrix may have other pairs elsewhere, and 15 states take 8 modes too."""
    few, many = ({**MODEL, "layer": layer, "layer_options": {"d_state": n}} for n in sizes)
    SequenceClassifier(d_input=1, d_output=2, **few).save_pretrained(tmp_path / "few")
    settings = config(model=many, start=str(tmp_path / "few"))
    with pytest.raises(ArgumentError, match=r"do not fit the model: (backbone.blocks.0.layer|other numbers of states)"):
        run(settings, tmp_path / "run", datasets=splits(), **QUIET)
    only_b = settings.replace(start_except=("backbone.blocks.0.layer.B",))
    with pytest.raises(ArgumentError, match=r"do not fit the model: (backbone.blocks.0.layer|other numbers of states)"):
        run(only_b, tmp_path / "run", datasets=splits(), **QUIET)


def test_a_pair_may_have_become_two_real_modes(tmp_path: Path):
    """As where the same perturbation is computed on another machine: what was trained counts."""
    A = torch.tensor([[-1.0, 0.5, 0.0], [-0.5, -1.0, 0.0], [0.0, 0.0, -2.0]])
    pairs = torch.block_diag(A, -torch.eye(1)).tolist(), [1.0] * 4
    reals = torch.diag(torch.tensor([-1.0, -1.5, -2.0, -3.0])).tolist(), [1.0] * 4
    models = [
        SequenceClassifier(
            d_input=1, d_output=2, layer="s4ptd", d_model=4, n_layers=1, dropout=0.2,
            layer_options={"d_state": 4, "hippo": (torch.tensor(a), torch.tensor(b)), "rel": 1e-6},
        )
        for a, b in (pairs, reals)
    ]  # fmt: skip
    here, there = models
    counts = [model.state_dict()["backbone.blocks.0.layer.count"] for model in models]
    assert counts[0].sum() == counts[1].sum() == 4
    assert counts[0].shape != counts[1].shape
    there.save_pretrained(tmp_path / "there")
    begin_with_weights(here, config(start=str(tmp_path / "there")))
    assert all(torch.equal(t, here.state_dict()[name]) for name, t in there.state_dict().items())


def test_what_a_failed_attempt_began_with_is_forgotten(earlier: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with monkeypatch.context() as patch:
        patch.setattr(loop.Loop, "run", lambda *_: (_ for _ in ()).throw(OSError("no room")))
        with pytest.raises(OSError, match="no room"):
            run(config(model=BATCH_NORM, start=str(earlier)), tmp_path / "run", datasets=splits(), **QUIET)
    assert (tmp_path / "run" / "start.json").exists()
    run(config(model=BATCH_NORM), tmp_path / "run", datasets=splits(), **QUIET)
    assert "start" not in json.loads((tmp_path / "run" / "record.json").read_text())["data"]
    again = config(model=BATCH_NORM, start=str(earlier))
    run(again, tmp_path / "run", datasets=splits(), resume=False, **QUIET)
    run(config(model=BATCH_NORM), tmp_path / "run", datasets=splits(), resume=False, **QUIET)
    assert not (tmp_path / "run" / "start.json").exists()


def test_weights_that_cannot_be_read_are_refused_before_anything_is_lost(earlier: Path, tmp_path: Path):
    broken = shutil.copytree(earlier, tmp_path / "broken")
    weight = broken / "final" / "model.safetensors"
    weight.write_bytes(weight.read_bytes()[:-10])
    own = shutil.copytree(earlier, tmp_path / "own")
    with pytest.raises(RecordError, match=r"model.safetensors is damaged"):
        run(config(model=BATCH_NORM, start=str(broken)), own, datasets=splits(), resume=False, **QUIET)
    assert load_run(own).finished
    runs = {name: config(model=BATCH_NORM, start=start) for name, start in (("a", None), ("b", str(broken)))}
    (tmp_path / "sweep").mkdir()
    shutil.copytree(earlier, tmp_path / "sweep" / "a")
    with pytest.raises(RecordError, match=r"model.safetensors is damaged"):
        sweep(runs, tmp_path / "sweep", datasets=splits(), resume=False, device="cpu", progress=False)
    assert load_run(tmp_path / "sweep" / "a").finished


def test_a_finished_run_needs_the_first_one_no_more(earlier: Path, tmp_path: Path):
    """Not even where its checkpoints are gone, nor where the first one is called by another path."""
    copy = shutil.copytree(earlier, tmp_path / "copy")
    run(config(model=BATCH_NORM, start=str(copy)), tmp_path / "run", datasets=splits(), **QUIET)
    shutil.rmtree(copy)
    shutil.rmtree(tmp_path / "run" / "checkpoints")
    elsewhere = config(model=BATCH_NORM, start="moved/copy")
    assert run(elsewhere, tmp_path / "run", datasets=splits(), **QUIET).finished


@pytest.mark.parametrize(("part", "epochs"), [("final", 3), ("initial", 0), ("epochs/0002", 2)])
def test_a_model_of_a_run_tells_of_the_run(tmp_path: Path, part: str, epochs: int):
    settings = config(seed=5, name="first", evaluation=EvaluationConfig(keep=(2,)))
    run(settings, tmp_path / "first", datasets=splits(), **QUIET)
    run(config(start=str(tmp_path / "first" / part)), tmp_path / "run", datasets=splits(), **QUIET)
    told = json.loads((tmp_path / "run" / "record.json").read_text())["data"]["start"]
    assert (told["preset"], told["seed"], told["epochs"]) == ("first", 5, epochs)


def test_parts_to_be_drawn_are_of_a_start():
    with pytest.raises(ArgumentError, match=r"start_except = \('head',\) is of weights to start from: give start"):
        config(start_except=("head",))


def test_records_know_a_start_by_its_name_wherever_it_lies():
    """The fingerprint of a run is the same on another machine."""
    assert fingerprint(config(start="runs/easy")) == fingerprint(config(start="elsewhere/easy"))
    others = (None, "runs/easy", "runs/medium", "runs/easy/final", "runs/medium/final", "runs/easy/epochs/0005")
    assert len({fingerprint(config(start=start)) for start in others}) == len(others)
