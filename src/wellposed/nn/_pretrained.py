"""A model in a folder: its arguments as JSON, its numbers as safetensors; nothing in either is ever executed."""

from __future__ import annotations

import hashlib
import inspect
import json
import os
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load, save
from torch import Tensor, nn

from wellposed._files import write_whole
from wellposed.errors import ArgumentError, RecordError, WellposedError
from wellposed.nn._layer import SequenceLayer
from wellposed.nn._pack import pack, unpack
from wellposed.nn._seeded import seeded

_FORMAT = "wellposed-model-1"
_ARGUMENTS = "arguments"
WEIGHTS = Path(__file__).parents[1] / "weights"
"""Trained models that travel with the library: a folder each, with a card that says where it comes from."""

Model = TypeVar("Model", bound="Pretrained")


class Pretrained(nn.Module):
    """``save_pretrained`` and ``from_pretrained`` for a module that keeps what it was built from in ``arguments``.

    Tensors among the arguments (a matrix ``(A, B)``, a ``Diagonalization``) are saved with the weights, so that a model
    can be loaded where nothing else of its making is at hand. The weights in the file always win over what the
    arguments compute.
    """

    @property
    @abstractmethod
    def arguments(self) -> dict[str, Any]:
        """What it was built from, by name."""

    def save_pretrained(self, folder: str | Path, *, overwrite: bool = False) -> Path:
        """Write ``config.json`` and ``model.safetensors``, each whole or not at all; the folder is made if need be.

        The same model, trained further, may be saved over itself. Another one that is there is kept, unless
        ``overwrite`` says otherwise.
        """
        from wellposed import __version__

        folder, extra = Path(folder), {}
        arguments = pack(self.arguments, extra, _ARGUMENTS)
        if hidden := [name for name in self.state_dict() if ".parametrizations." in f".{name}"]:
            raise ArgumentError(
                f"{hidden[0]} is parametrised, which a config does not say: torch.nn.utils.parametrize."
                "remove_parametrizations first, or keep the weights alone with state_dict()"
            )
        if not overwrite:
            defaults = {name: p.default for name, p in inspect.signature(type(self)).parameters.items()}
            _check_same(folder, type(self).__name__, arguments, extra, defaults)
        # A copy of each: parameters may be shared, or views of one another.
        own = {name: t.detach().to("cpu", copy=True) for name, t in self.state_dict().items()}
        weights = save({name: t.contiguous() for name, t in (own | extra).items()})
        config = {
            "format": _FORMAT,
            "class": type(self).__name__,
            "version": __version__,
            "arguments": arguments,
            "sha256": hashlib.sha256(weights).hexdigest(),
        }
        write_whole(folder / "model.safetensors", weights)
        write_whole(folder / "config.json", json.dumps(config, indent=2) + "\n")
        return folder

    @classmethod
    def from_pretrained(cls: type[Model], folder: str | Path, *, device: Any = None) -> Model:
        """The model saved there, in its precision, in eval mode, on ``device``.

        Where there is no such folder, it may be the name of a model that travels with the library.
        """
        place = torch.get_default_device() if device is None else device
        folder = model_folder(folder)
        file = folder / "model.safetensors"
        config = _read_config(folder / "config.json", cls.__name__)
        tensors = _read_weights(file, config["sha256"])
        model = _build(cls, config["arguments"], tensors, folder / "config.json")
        own = {name: t for name, t in tensors.items() if not name.startswith(f"{_ARGUMENTS}.")}
        fit_modes(model, own)
        try:
            model.load_state_dict(own, assign=True)
        except RuntimeError as error:
            raise RecordError(f"{file} does not fit the model of config.json beside it: {error}") from None
        return model.to(place).eval()


def model_folder(name: str | Path) -> Path:
    """The folder itself, or that of the model that travels under this name where there is none."""
    folder = Path(name)
    travelling = WEIGHTS / folder
    if os.path.exists(folder) or len(folder.parts) != 1 or not os.path.exists(travelling / "config.json"):
        return folder
    return travelling


def travelling_models() -> str:
    """Their names, as an error lists them."""
    return ", ".join(sorted(path.parent.name for path in WEIGHTS.glob("*/config.json")))


def _check_same(
    folder: Path, name: str, arguments: dict[str, Any], tensors: dict[str, Tensor], defaults: dict[str, Any]
) -> None:
    """Refuse to write over another model, or over weights that nothing describes."""
    config, weights = folder / "config.json", folder / "model.safetensors"
    if not config.exists() and not weights.exists():
        return
    try:
        found = json.loads(config.read_text(encoding="utf-8"))
        # An option that is newer than the file had its default then.
        before = {key: value for key, value in defaults.items() if key in arguments} | found["arguments"]
        same = found["class"] == name and before == json.loads(json.dumps(arguments))
        same = same and all(torch.equal(value, t) for value, t in _stored(weights, tensors))
        what = f"another {found['class']}"
    except (OSError, ValueError, KeyError, TypeError, SafetensorError):
        same, what = False, "something that is no model of this library"
    if not same:
        raise RecordError(f"{folder} holds {what}: choose another folder, or pass overwrite=True")


def _stored(weights: Path, tensors: dict[str, Tensor]) -> Iterator[tuple[Tensor, Tensor]]:
    """Tensors among the arguments as they lie in the file, beside those to be written."""
    with safe_open(weights, "pt") as file:
        for path, tensor in tensors.items():
            yield file.get_tensor(path), tensor


def _read_config(path: Path, name: str) -> dict[str, Any]:
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        hint = "" if os.path.exists(path.parent) else f"; models that travel with the library are {travelling_models()}"
        raise RecordError(f"cannot read {path}: {error.strerror}{hint}") from None
    except ValueError as error:
        raise RecordError(f"{path} is not JSON, or is damaged: {error}") from None
    if not isinstance(config, dict) or config.get("format") != _FORMAT:
        raise RecordError(f"{path} does not describe a saved model: its format is not {_FORMAT!r}")
    for key, kind in (("class", str), ("arguments", dict), ("sha256", str)):
        if not isinstance(config.get(key), kind):
            raise RecordError(f"{path} lacks {key!r}: it is damaged, or from another version")
    if config["class"] != name:
        raise RecordError(f"{path} describes a {config['class']}, not a {name}: use {config['class']}.from_pretrained")
    return config


def _read_weights(path: Path, digest: str) -> dict[str, Tensor]:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise RecordError(f"cannot read {path}: {error.strerror}") from None
    if hashlib.sha256(content).hexdigest() != digest:
        raise RecordError(f"{path} is damaged, or not the one config.json was written with: its SHA-256 differs")
    try:
        return load(content)
    except SafetensorError as error:
        raise RecordError(f"{path} is not a safetensors file: {error}") from None


def _build(cls: type[Model], arguments: dict[str, Any], tensors: Mapping[str, Tensor], path: Path) -> Model:
    """The constructor called again; the random numbers it draws are thrown away, PyTorch's generator stays put."""
    try:
        with seeded(0):
            return cls(**unpack(arguments, tensors))
    except (WellposedError, TypeError, KeyError, AttributeError) as error:
        raise RecordError(f"{path} does not rebuild a {cls.__name__}: {error}") from None


def fit_modes(model: nn.Module, stored: Mapping[str, Tensor]) -> None:
    """Make room where the file has another number of modes.

    A pair of eigenvalues on one machine may be two real ones on the next, which takes a mode more: the perturbation is
    computed again when a model is rebuilt, but what was trained is what counts.
    """
    for prefix, module in model.named_modules():
        count = stored.get(f"{prefix}.count")
        if not isinstance(module, SequenceLayer) or not (axes := module.mode_axes()) or count is None:
            continue
        own = dict(module.named_parameters(recurse=False)) | dict(module.named_buffers(recurse=False))
        if own["count"].shape == count.shape:
            continue
        for name, axis in axes.items():
            if name in own:
                shape = list(own[name].shape)
                shape[axis] = count.numel()
                own[name].data = own[name].new_empty(shape)
