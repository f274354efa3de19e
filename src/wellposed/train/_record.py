"""What a run leaves to be read: a record with its provenance, the machines it was on, spectra before and after."""

from __future__ import annotations

import json
import shlex
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor

from wellposed._files import write_whole
from wellposed.errors import RecordError
from wellposed.nn import SequenceModel, StateSpaceLayer
from wellposed.records import Record, provenance
from wellposed.train._config import RunConfig
from wellposed.train._course import Course
from wellposed.train._folder import ENVIRONMENT, RECORD, read_json

SPECTRA = "spectra.safetensors"


def command() -> str:
    """How this was started, as far as can be told."""
    program = Path(sys.argv[0])
    if program.name == "__main__.py":  # of a package, started by its name
        _, ours, below = ".".join(program.parent.parts).rpartition("wellposed")
        return shlex.join(["python", "-m", ours + below if ours else program.parent.name, *sys.argv[1:]])
    return shlex.join([program.name or "python", *sys.argv[1:]])


def note_machine(folder: Path, made: dict[str, Any], *, device: str, processes: int, step: int) -> None:
    """One more entry in ``environment.json``: where this slice of the run is done, and from which step on."""
    path = folder / ENVIRONMENT
    slices = read_json(path).get("slices") if path.exists() else []
    if not isinstance(slices, list):
        raise RecordError(f"{path} is damaged: it holds no list of slices")
    slices.append({"from_step": step, "device": device, "processes": processes, **made})
    write_whole(path, json.dumps({"slices": slices}, indent=2) + "\n")


def write_record(folder: Path, config: RunConfig, course: Course, made: dict[str, Any], **facts: Any) -> Path:
    """``record.json``: what came out, and how it was made."""
    selected = config.evaluation.select_on
    data = {
        "preset": config.name,
        "note": config.note,
        "config": config.to_dict(),
        "finished": course.finished,
        "stopped": course.stopped,
        "epochs": course.epoch,
        "steps": course.step,
        "best_epoch": course.best_epoch,
        "selected_on": selected,
        "best": course.best,
        "test": course.test,
        **facts,
    }
    chosen = "" if selected == "val" else " The best epoch was chosen on the test split, as some publications do."
    record = Record(
        experiment=folder.resolve().name,
        title=f"Training of {config.name or config.data.task}",
        source="",
        paper="",
        finding=f"{_finding(course)}{chosen}",
        claims=[],
        data=data,
        provenance=made | {"seconds": round(course.seconds, 2)},
    )
    return write_whole(folder / RECORD, json.dumps(asdict(record), indent=1, allow_nan=False) + "\n")


def _finding(course: Course) -> str:
    state = "finished" if course.finished else "not finished"
    found = {split: some for split, some in course.best.items() if split != "train"} | {"test": course.test}
    results = [f"{split} {name} {value:.4g}" for split, some in found.items() for name, value in some.items()]
    return f"{state} after {course.epoch} epochs; best epoch {course.best_epoch}: {', '.join(results)}."


def describe_machine(seconds: float, config: RunConfig) -> dict[str, Any]:
    """Command, commit, versions and hardware."""
    return provenance(command(), seconds, config.seed)


def write_spectra(folder: Path, model: SequenceModel, when: str) -> None:
    """Eigenvalues (real and imaginary parts) and steps of every state-space layer, for pictures of them.

    Names are ``before.0.eigenvalues`` and ``after.0.dt``; ``when`` is ``"before"`` or ``"after"``. Of S5, whose modes
    have steps of their own, eigenvalues are times their steps, as its ``system()`` has them.
    """
    path = folder / SPECTRA
    try:
        found: dict[str, Tensor] = load_file(path) if path.exists() else {}
    except SafetensorError:
        found = {}
    layers = [module for module in model.modules() if isinstance(module, StateSpaceLayer)]
    with torch.no_grad():
        for number, layer in enumerate(layers):
            found[f"{when}.{number}.dt"] = layer.dt.detach().cpu().float().clone()
            poles = _poles(layer)
            if poles is not None:
                found[f"{when}.{number}.eigenvalues"] = torch.view_as_real(poles).contiguous()
    write_whole(path, save(found))


def _poles(layer: Any) -> Tensor | None:
    """Eigenvalues of continuous time, where the layer is a linear system."""
    system = getattr(layer, "system", None)
    if system is None:
        return None
    return system().poles().detach().cpu().to(torch.complex64).resolve_conj().clone()
