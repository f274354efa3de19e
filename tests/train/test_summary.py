"""What a run says about the layers it has trained, against responses that are measured and not computed."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from training_toys import MODEL, config, splits, waves
from wellposed.errors import RecordError
from wellposed.nn import S4, S4D, S4PTD, S5PTD, StateSpaceLayer
from wellposed.train import run, summarize
from wellposed.train._response import layer_response

QUIET: Any = {"device": "cpu", "progress": False}


@pytest.fixture(autouse=True, scope="module")
def pages() -> None:
    """Pages are drawn here."""


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    model = MODEL | {"layer": "s4ptd", "n_layers": 2}
    folder = tmp_path_factory.mktemp("runs") / "waves"
    return run(config(model=model, epochs=2), folder, datasets=splits(), **QUIET).folder


def analysis(folder: Path) -> list[dict[str, Any]]:
    return json.loads((folder / "analysis.json").read_text(encoding="utf-8"))["layers"]


def impulses(layer: StateSpaceLayer, length: int = 4096) -> np.ndarray:
    """What comes out of every channel after an impulse into each, until it has died away: ``(input, time, output)``."""
    channels = layer.d_model
    u = torch.zeros(channels, length, channels, dtype=torch.float64)
    u[torch.arange(channels), 0, torch.arange(channels)] = 1
    with torch.no_grad():
        return layer.double()(u).numpy()


def amplitude(kernels: np.ndarray, cycles: Any) -> np.ndarray:
    """Of every output channel at some frequencies, by the sum that defines it: ``(frequency, output)``."""
    waves = np.exp(-2j * np.pi * np.outer(cycles, np.arange(kernels.shape[1])))
    return np.linalg.norm(np.einsum("kt,ito->kio", waves, kernels), axis=1)


FAST = {"dt_min": 0.05, "dt_max": 0.3, "seed": 3}
LAYERS = [
    S4PTD(5, 16, **FAST),
    S4D(5, 6, disc="bilinear", **FAST),
    S4D(4, 16, n_ssm=2, **FAST),
    S4(3, 8, **FAST),
    S5PTD(4, 16, **FAST),
    S5PTD(4, 16, disc="bilinear", blocks=2, **FAST),
    S4PTD(3, 8, bidirectional=False, disc="bilinear", **FAST),
]


@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: f"{type(layer).__name__}-{layer.disc}")
def test_no_wave_comes_out_louder_than_is_certified(layer: StateSpaceLayer):
    found = layer_response(layer)
    assert found is not None
    kernels = impulses(layer)
    heard = amplitude(kernels, np.linspace(0, 0.5, 501))
    for peak in found.worst:
        assert peak.upper is not None
        assert amplitude(kernels, [peak.cycles])[0, peak.channel] == pytest.approx(peak.value, rel=1e-6)
        assert heard[:, peak.channel].max() <= peak.upper * (1 + 1e-9)
        assert peak.value <= peak.upper <= peak.value * (1 + 2e-4)
    assert heard.max() <= found.worst[0].value * (1 + 1e-4)  # no other channel is louder here
    assert found.worst == sorted(found.worst, key=lambda peak: -peak.value)
    some = slice(None, None, 16)
    seen = amplitude(kernels, found.cycles[some].numpy())
    np.testing.assert_allclose(found.largest[some], seen.max(axis=1), rtol=1e-6)
    np.testing.assert_allclose(found.median[some], np.sort(seen, axis=1)[:, (layer.d_model - 1) // 2], rtol=1e-6)


def test_a_spike_between_the_points_of_the_grid_is_found():
    layer = S4D(4, 8, seed=0)
    with torch.no_grad():
        layer.A_log_real[2, 1] = math.log(1e-4)  # hardly damped: far narrower than two points of the grid lie apart
    found = layer_response(layer)
    assert found is not None
    assert found.worst[0].channel == 2
    assert found.worst[0].value > 100 * found.largest.max()


def test_a_wave_that_is_not_damped_at_all_is_not_certified():
    layer = S4D(2, 4, seed=0)
    with torch.no_grad():
        layer.A_log_real[1, 0] = -60.0
    found = layer_response(layer)
    assert found is not None
    assert [peak.upper for peak in found.worst if peak.channel == 1] == [None]


def test_a_run_leaves_its_page(finished: Path):
    layers = analysis(finished)
    assert [layer["kind"] for layer in layers] == ["S4PTD", "S4PTD"]
    for layer in layers:
        for when in ("before", "after"):
            assert len(layer[when]["dt"]) == 4
            assert all(real < 0 for real in layer[when]["eigenvalues"][0])
            assert layer[when]["response"]["worst"][0]["upper"] > 0
        assert layer["before"] != layer["after"]
    page = (finished / "summary.html").read_text(encoding="utf-8")
    assert "test accuracy" in page
    assert f"{layers[0]['after']['response']['worst'][0]['value']:.4g}" in page


def test_what_was_before_is_what_the_run_began_with(finished: Path):
    from safetensors.torch import load_file

    spectra = load_file(finished / "spectra.safetensors")
    for number, layer in enumerate(analysis(finished)):
        for when in ("before", "after"):
            assert layer[when]["dt"] == pytest.approx(spectra[f"{when}.{number}.dt"].tolist(), rel=1e-4)


@pytest.mark.slow
def test_a_page_that_is_missing_is_made_when_the_run_is_called_again(finished: Path):
    (finished / "summary.html").unlink()
    model = MODEL | {"layer": "s4ptd", "n_layers": 2}
    run(config(model=model, epochs=2), finished, datasets=splits(), **QUIET)
    assert (finished / "summary.html").exists()


def test_a_run_begun_anew_forgets_the_old_page(tmp_path: Path):
    run(config(epochs=1), tmp_path, datasets=splits(), summary=False, **QUIET)
    for name in ("summary.html", "analysis.json"):
        (tmp_path / name).write_text("{}")
    run(config(epochs=1), tmp_path, datasets=splits(), summary=False, resume=False, **QUIET)
    assert not {"summary.html", "analysis.json"} & {path.name for path in tmp_path.iterdir()}


def test_a_run_to_be_continued_and_one_without_its_first_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    left = iter([False] * 4 + [True] * 99)
    monkeypatch.setattr("wellposed.train._loop._passed", lambda deadline: next(left))
    folder = run(config(), tmp_path / "run", datasets=splits(), minutes=1, **QUIET).folder
    assert not (folder / "summary.html").exists()
    page = summarize(folder).read_text(encoding="utf-8")
    assert "not finished: after 1 of 3 epochs" in page
    for path in (folder / "initial").iterdir():
        path.unlink()
    assert analysis(folder)[0]["before"] is not None
    assert "before and after training" not in summarize(folder).read_text(encoding="utf-8")
    assert analysis(folder)[0]["before"] is None


def test_a_model_without_such_layers_has_a_page_too(tmp_path: Path):
    model = {"layer": "attention", "d_model": 4, "n_layers": 1, "layer_options": {"n_heads": 2}}
    folder = run(config(model=model, epochs=1), tmp_path / "run", datasets=splits(waves), **QUIET).folder
    page = (folder / "summary.html").read_text(encoding="utf-8")
    assert "worst-case" not in page
    assert "How it learnt" in page


def test_a_page_that_cannot_be_drawn_costs_no_run(tmp_path: Path, monkeypatch, capsys):
    def broken(folder: Path) -> Iterator[None]:
        raise UserWarning("no ink")

    monkeypatch.setattr("wellposed.train._run.summarize", broken)
    result = run(config(epochs=1), tmp_path / "run", datasets=splits(), device="cpu")
    assert result.finished
    assert "has no summary.html: no ink; 'wellposed summary" in capsys.readouterr().err


def test_no_run_no_page(tmp_path: Path):
    with pytest.raises(RecordError, match="no folder of a run"):
        summarize(tmp_path)
