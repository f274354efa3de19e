"""Models that come back from their folder, and files that do not pass for one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch.nn.utils import parametrize

from subprocesses import run_python
from wellposed import hippo, ptd
from wellposed.errors import ArgumentError, RecordError
from wellposed.nn import S4D, PairClassifier, SequenceClassifier, SequenceRegressor

A, B = hippo.legs(6)
CHOICES: dict[str, dict[str, Any]] = {
    "s4": {"layer": "s4", "layer_options": {"d_state": 6}},
    "s5": {"layer": "s5", "norm": "batch", "layer_options": {"d_state": 6, "blocks": 2}},
    "s4ptd": {"layer": "s4ptd", "glu": "half2", "dropout": 0.1, "layer_options": {"d_state": 6, "rel": 0.05}},
    "liquid-s4": {"layer": "liquid-s4", "layer_options": {"d_state": 6, "kernel": "kb"}},
    "attention": {"layer": "attention", "prenorm": False, "layer_options": {"n_heads": 2}},
    "matrices": {"layer": "s4ptd", "layer_options": {"hippo": (A, B.numpy()), "C_init": torch.ones(6)}},
    "perturbation": {"layer": "s5ptd", "layer_options": {"perturbation": ptd(A, rel=0.2, stable=True)}},
    "class": {"layer": S4D, "layer_options": {"d_state": 6}},
    "float64": {"layer": "s4d", "layer_options": {"d_state": 6}, "dtype": torch.float64},
}


def small(kind: Any = SequenceClassifier, choice: str = "s4ptd", **options: Any) -> Any:
    body: dict[str, Any] = {"vocabulary": 5, "d_model": 4, "n_layers": 2}
    model = kind(None, 3, **body | CHOICES[choice] | options)
    tokens = torch.randint(5, (4, 9))
    model(tokens, tokens) if kind is PairClassifier else model(tokens)  # batch norm moves its statistics
    with torch.no_grad():
        for p in model.parameters():
            p.add_(0.1 * torch.randn_like(p))  # as if trained
    return model.eval()


@pytest.mark.parametrize("choice", CHOICES)
def test_comes_back_the_same(choice: str, tmp_path: Path):
    model, tokens = small(choice=choice), torch.randint(5, (2, 7))
    assert model.save_pretrained(tmp_path / "new") == tmp_path / "new"
    assert sorted(f.name for f in (tmp_path / "new").iterdir()) == ["config.json", "model.safetensors"]
    before = torch.get_rng_state()
    loaded = SequenceClassifier.from_pretrained(tmp_path / "new")
    assert torch.equal(before, torch.get_rng_state())
    assert torch.equal(loaded(tokens), model(tokens))
    assert not loaded.training
    assert all(p.requires_grad for p in loaded.parameters())
    loaded.save_pretrained(tmp_path / "again")
    first, second = (json.loads((tmp_path / f / "config.json").read_text()) for f in ("new", "again"))
    assert first == second


@pytest.mark.parametrize("kind", [SequenceRegressor, PairClassifier])
def test_other_models(kind: Any, tmp_path: Path):
    model, a, b = small(kind), torch.randint(5, (2, 7)), torch.randint(5, (2, 4))
    loaded = kind.from_pretrained(model.save_pretrained(tmp_path))
    inputs = (a, b) if kind is PairClassifier else (a,)
    assert torch.equal(loaded(*inputs), model(*inputs))


def test_in_a_fresh_process(tmp_path: Path):
    tokens, expected = torch.randint(5, (2, 7)), {}
    for choice in ("perturbation", "matrices", "s4ptd"):
        model = small(choice=choice)
        model.save_pretrained(tmp_path / choice)
        expected[choice] = model(tokens).tolist()
    found = run_python(f"""
import json, torch
from wellposed.nn import SequenceClassifier
tokens, folder = torch.tensor({tokens.tolist()}), {str(tmp_path)!r}
models = {{c: SequenceClassifier.from_pretrained(f"{{folder}}/{{c}}") for c in {list(expected)}}}
print(json.dumps({{c: model(tokens).tolist() for c, model in models.items()}}))
""")
    for choice, values in json.loads(found).items():
        torch.testing.assert_close(torch.tensor(values), torch.tensor(expected[choice]), rtol=1e-6, atol=1e-6)


def test_precision_follows_the_weights(tmp_path: Path):
    model = small().double()
    loaded = SequenceClassifier.from_pretrained(model.save_pretrained(tmp_path), device="cpu")
    assert {p.dtype for p in loaded.parameters()} == {torch.float64}
    tokens = torch.randint(5, (2, 7))
    assert torch.equal(loaded(tokens), model(tokens))


def test_another_number_of_modes(tmp_path: Path):
    """Two real eigenvalues where the rebuilt matrix has a pair: what was saved wins."""
    pair = torch.tensor([[-1.0, 2.0], [-2.0, -1.0]], dtype=torch.float64)
    one = torch.block_diag(pair, torch.diag(torch.tensor([-1.0, -3.0], dtype=torch.float64)))
    b = torch.ones(4, dtype=torch.float64)
    for layer in ("s4ptd", "s5ptd"):
        model = small(layer=layer, layer_options={"hippo": (one, b), "rel": 1e-6})
        model.arguments["layer_options"]["hippo"] = (torch.block_diag(pair, 2 * pair), b)
        loaded = SequenceClassifier.from_pretrained(model.save_pretrained(tmp_path / layer))
        tokens = torch.randint(5, (2, 7))
        assert torch.equal(loaded(tokens), model(tokens))
        assert loaded.backbone.blocks[0].get_submodule("layer").get_buffer("count").tolist() == [2, 1, 1]


def test_another_model_is_not_written_over(tmp_path: Path):
    """The same one, trained further, is; what is there stays as it was."""
    model, tokens = small(seed=1), torch.randint(5, (2, 7))
    model.save_pretrained(tmp_path)
    with torch.no_grad():
        model.head.bias.add_(1.0)
    model.save_pretrained(tmp_path)
    for other in (small(seed=2), small(dropout=0.2, seed=1), small(SequenceRegressor, seed=1)):
        with pytest.raises(
            RecordError, match=r"holds another SequenceClassifier: choose another folder, or .*overwrite"
        ):
            other.save_pretrained(tmp_path)
    assert torch.equal(SequenceClassifier.from_pretrained(tmp_path)(tokens), model(tokens))
    matrices = [(-k * torch.eye(6, dtype=torch.float64), B) for k in (1, 5)]
    first, second = (small(layer_options={"hippo": pair}, seed=1) for pair in matrices)
    first.save_pretrained(tmp_path / "matrix")
    with pytest.raises(RecordError, match="holds another"):
        second.save_pretrained(tmp_path / "matrix")
    regressor = small(SequenceRegressor)
    loaded = SequenceRegressor.from_pretrained(regressor.save_pretrained(tmp_path, overwrite=True))
    assert torch.equal(loaded(tokens), regressor(tokens))
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(RecordError, match="something that is no model of this library"):
        model.save_pretrained(tmp_path)


def test_files_that_are_older_than_an_option(tmp_path: Path):
    """Loaded with its default, and not taken for another model when saved again."""
    model, tokens = small(seed=1), torch.randint(5, (2, 7))
    model.save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    del config["arguments"]["norm_momentum"]
    (tmp_path / "config.json").write_text(json.dumps(config))
    loaded = SequenceClassifier.from_pretrained(tmp_path)
    assert torch.equal(loaded(tokens), model(tokens))
    loaded.save_pretrained(tmp_path)


def test_parametrised_models_are_refused(tmp_path: Path):
    model = small()
    parametrize.register_parametrization(model.head, "weight", torch.nn.Identity())
    with pytest.raises(ArgumentError, match=r"head\.parametrizations\.weight\.original is parametrised"):
        model.save_pretrained(tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_function_cannot_be_saved(tmp_path: Path):
    model = SequenceClassifier(2, 3, layer=lambda d_model: S4D(d_model, 4), d_model=4, n_layers=1)
    with pytest.raises(ArgumentError, match=r"layer = <function .* cannot be written .* state_dict"):
        model.save_pretrained(tmp_path)
    assert not list(tmp_path.iterdir())


def edit(folder: Path, **changes: Any) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({k: v for k, v in (config | changes).items() if v is not None}))


def restamp(folder: Path) -> None:
    """Make config.json believe in the weights beside it."""
    import hashlib

    edit(folder, sha256=hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest())


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    return small().save_pretrained(tmp_path)


def refuse(folder: Path, message: str) -> None:
    with pytest.raises(RecordError, match=message):
        SequenceClassifier.from_pretrained(folder)


def test_damaged_configurations(saved: Path):
    config = saved / "config.json"
    whole = config.read_text()
    for change, message in (
        ({"class": "PairClassifier"}, "config.json describes a PairClassifier, not a SequenceClassifier"),
        ({"format": "other"}, "config.json does not describe a saved model"),
        ({"arguments": None}, "config.json lacks 'arguments'"),
        ({"arguments": {"d_input": 3}}, "config.json does not rebuild a SequenceClassifier: .*d_output"),
        ({"arguments": {"d_input": 3, "d_output": 2, "wings": 2}}, "config.json does not rebuild .*wings"),
        ({"arguments": {"d_input": 3, "d_output": 2, "layer": "s9"}}, "config.json does not rebuild .*'s9'"),
        ({"arguments": {"d_input": {"$tensor": "none"}, "d_output": 2}}, "config.json does not rebuild"),
        ({"arguments": {"d_input": {"$pickle": "none"}, "d_output": 2}}, "config.json does not rebuild"),
        ({"arguments": {"d_input": 3, "d_output": 2, "d_model": 4}}, "model.safetensors does not fit"),
    ):
        config.write_text(whole)
        edit(saved, **change)
        refuse(saved, message)
    for text in (whole[:40], "", "[]", "\x00"):
        config.write_text(text)
        refuse(saved, "config.json")
    config.unlink()
    refuse(saved, "cannot read .*config.json: No such file")


def test_damaged_weights(saved: Path):
    path = saved / "model.safetensors"
    whole = path.read_bytes()
    path.write_bytes(whole[:-8])
    refuse(saved, "model.safetensors is damaged")
    path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    refuse(saved, "model.safetensors is damaged")
    path.write_bytes(whole[:-8])
    restamp(saved)
    refuse(saved, "model.safetensors is not a safetensors file")
    path.write_bytes(whole)
    tensors = load_file(path)
    for changed, message in (
        (tensors | {"head.bias": torch.ones(4)}, "model.safetensors does not fit .*head.bias"),
        ({k: v for k, v in tensors.items() if k != "head.bias"}, "model.safetensors does not fit .*head.bias"),
        (tensors | {"tail": torch.ones(4)}, "model.safetensors does not fit .*tail"),
        (tensors | {"backbone.blocks.0.layer.count": torch.ones(9)}, "model.safetensors does not fit .*A_imag"),
    ):
        save_file(changed, path)
        restamp(saved)
        with pytest.raises(RecordError, match=r"(?s)" + message):
            SequenceClassifier.from_pretrained(saved)
    path.unlink()
    refuse(saved, "cannot read .*model.safetensors: No such file")


def test_an_interrupted_save_leaves_the_old_model(saved: Path, monkeypatch: pytest.MonkeyPatch):
    tokens = torch.randint(5, (2, 7))
    before = SequenceClassifier.from_pretrained(saved)(tokens)

    def fail(*_: Any) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("os.replace", fail)
    with pytest.raises(RecordError, match="disk full"):
        small().save_pretrained(saved)
    assert torch.equal(SequenceClassifier.from_pretrained(saved)(tokens), before)
    assert sorted(f.name for f in saved.iterdir()) == ["config.json", "model.safetensors"]


def test_models_that_travel_are_known_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Unless a folder is called so, and from wherever one is."""
    monkeypatch.chdir(tmp_path)
    model = SequenceClassifier.from_pretrained("lra-listops-s5ptd").float()
    assert model.arguments["d_model"] == 128
    assert not model.training
    assert SequenceClassifier.from_pretrained("lra-listops-s5ptd/").arguments == model.arguments
    for name in ("lra-listops-s5", "somewhere/lra-listops-s5ptd", "..", "", "a" * 300):
        with pytest.raises(RecordError, match=r"cannot read .*config.json"):
            SequenceClassifier.from_pretrained(name)
    with pytest.raises(RecordError, match=r"models that travel with the library are lra-listops-s5ptd, lra-pathfinder"):
        SequenceClassifier.from_pretrained("lra-listops-s5")
    own = SequenceClassifier(d_input=1, d_output=2, d_model=4, n_layers=1, seed=0, layer_options={"d_state": 4})
    own.save_pretrained("lra-listops-s5ptd")
    assert SequenceClassifier.from_pretrained("lra-listops-s5ptd").arguments["d_model"] == 4
