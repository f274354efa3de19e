"""Weights that training begins with: those of another run, or of a saved model."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import Tensor

from wellposed._files import write_whole
from wellposed.errors import ArgumentError, RecordError
from wellposed.nn import SequenceModel
from wellposed.nn._pretrained import fit_modes, model_folder, travelling_models
from wellposed.train._config import RunConfig
from wellposed.train._folder import CARD, CONFIG, EPOCHS, INITIAL, START, has_checkpoint, read_json, start_name
from wellposed.train._result import is_finished, load_model, load_run


def check_start(folder: Path, config: RunConfig, *, resume: bool) -> None:
    """Read the weights before anything is removed or prepared; a run that has come further needs them no more."""
    if config.start is None:
        return
    if Path(config.start).resolve().is_relative_to(folder.resolve()):
        raise ArgumentError(f"start = {config.start!r} lies in {folder}, where this run goes: choose another folder")
    if not (resume and (has_checkpoint(folder) or is_finished(folder))):
        load_model(_model_folder(config.start)[0], "cpu")


def begin_with_weights(net: SequenceModel, config: RunConfig) -> dict[str, Any]:
    """Give the model the weights that its config names, and say whose they were; nothing where it names none."""
    if config.start is None:
        return {}
    place, about = _model_folder(config.start)
    found = load_model(place, "cpu").state_dict()
    drawn = _parts(net.state_dict(), config.start_except)
    weights = {name: t for name, t in found.items() if not _belongs(name, config.start_except)}
    if same_states := _has_states_of(net, weights):
        fit_modes(net, weights)  # a pair of eigenvalues here may be two real ones where the weights were made
    own = net.state_dict()
    _check_fits(config, {name: t for name, t in own.items() if name not in drawn}, weights)
    if not same_states:  # 15 states take as many modes as 16
        raise ArgumentError(f"the weights of start = {config.start!r} do not fit the model: other numbers of states")
    net.load_state_dict(weights | drawn)
    return {"folder": config.start, "sha256": read_json(place / "config.json").get("sha256"), **about}


def note_start(folder: Path, about: dict[str, Any]) -> None:
    """Keep it beside the run, whose record tells of it, in the place of what an attempt before has left."""
    if about:
        write_whole(folder / START, json.dumps(about, indent=2) + "\n")
    else:
        (folder / START).unlink(missing_ok=True)


def noted_start(folder: Path) -> dict[str, Any]:
    """What of it goes into the record."""
    if not (folder / START).exists():
        return {}
    try:
        return {"start": read_json(folder / START)}
    except RecordError as error:
        raise RecordError(f"{error}; without that file the record will not say whose weights it began with") from None


def _model_folder(start: str) -> tuple[Path, dict[str, Any]]:
    """Where the weights lie, and what is known of the run they come from."""
    folder = model_folder(start)
    if not os.path.exists(folder / "config.json"):  # false for names that no folder can have, too
        raise RecordError(
            f"start = {start!r} holds neither a run nor a saved model: name the folder of a run, such as runs/NAME, or "
            f"one that save_pretrained has written, or one that travels with the library: {travelling_models()}"
        )
    if "format" not in read_json(folder / "config.json"):
        return load_run(folder).model_folder(), _about(folder)
    depth = start_name(start).count("/")
    if depth and (folder.parents[depth - 1] / CONFIG).exists():
        return folder, _about(folder.parents[depth - 1], folder)
    return folder, _from_card(folder / CARD) if (folder / CARD).exists() else {}


def _from_card(path: Path) -> dict[str, Any]:
    """Of a model that travels with the library, whose runs lie elsewhere."""
    card = read_json(path)
    names = ("preset", "task", "options", "seed", "epochs", "best_epoch", "before")
    return {name: card[name] for name in names if name in card}


def _about(run: Path, model: Path | None = None) -> dict[str, Any]:
    """Of a run, whose best model it is unless another is named, and of those that it began with."""
    done = load_run(run)
    if model is not None and model.parent.name == EPOCHS:
        done = replace(done, epoch=int(model.name), best_epoch=None)
    elif model is not None and model.name == INITIAL:
        done = replace(done, epoch=0, best_epoch=None, seconds=0.0)
    return {
        "preset": done.config.name,
        "task": done.config.data.task,
        "options": dict(done.config.data.options),
        "seed": done.config.seed,
        "epochs": done.epoch,
        "best_epoch": done.best_epoch,
        "run_minutes": round(done.seconds / 60, 3),
        **noted_start(run),
    }


def _has_states_of(net: SequenceModel, weights: dict[str, Tensor]) -> bool:
    """Whether every system has as many states: ``count`` says how many a mode stands for."""
    counts = ((t, weights[name]) for name, t in net.state_dict().items() if name.endswith(".count") and name in weights)
    return all(bool(here.sum() == there.sum()) for here, there in counts)


def _belongs(name: str, parts: tuple[str, ...]) -> bool:
    return any(f"{name}.".startswith(f"{part}.") for part in parts)


def _parts(own: dict[str, Tensor], parts: tuple[str, ...]) -> dict[str, Tensor]:
    """The weights that are drawn all the same."""
    for part in parts:
        if not any(_belongs(name, (part,)) for name in own):
            known = dict.fromkeys(".".join(name.split(".")[:2]) if "." in name else name for name in own)
            raise ArgumentError(f"start_except: the model has no part {part!r}; it has {', '.join(known)}")
    return {name: t.clone() for name, t in own.items() if _belongs(name, parts)}


def _check_fits(config: RunConfig, own: dict[str, Tensor], found: dict[str, Tensor]) -> None:
    """Refuse weights of another model, by name."""
    here, there = ({name: _size(t) for name, t in tensors.items()} for tensors in (own, found))
    other = [name for name in here | there if here.get(name) != there.get(name)]
    if other:
        sizes = ((name, here.get(name, "missing"), there.get(name, "missing")) for name in other[:4])
        listed = ", ".join(f"{name} is {size} here, {before} there" for name, size, before in sizes)
        more = f" and {len(other) - 4} more" if len(other) > 4 else ""
        raise ArgumentError(
            f"the weights of start = {config.start!r} do not fit the model: {listed}{more}. Take the same model, or "
            "name in start_except the parts that are to be drawn anew, such as head"
        )


def _size(tensor: Tensor) -> str:
    return " x ".join(map(str, tensor.shape)) or "one number"
