"""A diagonalisation as a safetensors file: complex numbers as pairs of real ones, no pickle."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from wellposed.errors import RecordError

TENSORS = ("Lambda", "V", "V_inv", "E")
NUMBERS = ("condition", "condition_lower", "rel", "residual", "backward_error", "abscissa", "gap")
_FORMAT = "wellposed-diagonalization-2"
_FIRST = "wellposed-diagonalization-1"  # without A, start and balanced: still read
_NOTES = ("format", "complex", "method", "converged", "start")
_BALANCED = "balanced."  # how the names of its tensors begin


def pack(fields: Mapping[str, Any]) -> bytes:
    """The bytes of a file with these fields of a ``Diagonalization``."""
    from safetensors.torch import save

    tensors, pairs = _tensors(fields)
    if fields["balanced"] is not None:
        inner = _tensors({name: getattr(fields["balanced"], name) for name in (*TENSORS, "A", *NUMBERS)})[0]
        tensors |= {_BALANCED + name: t for name, t in inner.items()}
    flat = {name: t.contiguous().cpu() for name, t in tensors.items()}
    texts = (_FORMAT, json.dumps(pairs), fields["method"], json.dumps(fields["converged"]), fields["start"])
    return save(flat, dict(zip(_NOTES, texts, strict=True)))


def _tensors(fields: Mapping[str, Any]) -> tuple[dict[str, Tensor], list[str]]:
    """What is saved of one diagonalisation, all real, and the names of what was complex."""
    tensors = {name: fields[name] for name in (*TENSORS, "A") if fields[name] is not None}
    tensors |= {name: torch.as_tensor(fields[name], dtype=torch.float64) for name in NUMBERS}
    pairs = [name for name, t in tensors.items() if t.is_complex()]
    return tensors | {name: torch.view_as_real(tensors[name].resolve_conj()) for name in pairs}, pairs


def unpack(path: Path) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """The fields of a ``Diagonalization`` from a file, and those of its ``balanced`` where it has one.

    Whatever ``pack`` would not have written is refused.
    """
    tensors, notes = _read(path)
    if notes.get("format") not in (_FORMAT, _FIRST):
        raise RecordError(f"{path} holds {notes.get('format', 'something else')!r}, not {_FORMAT!r}")
    try:
        first = notes["format"] == _FIRST
        _check_names(notes, _NOTES[:-1] if first else _NOTES)
        outer = {name: t for name, t in tensors.items() if first or not name.startswith(_BALANCED)}
        inner = {name.removeprefix(_BALANCED): t for name, t in tensors.items() if name not in outer}
        for part in (outer, inner) if inner else (outer,):
            _check_names(part, (*NUMBERS, *TENSORS, *(("A",) if "A" in part and not first else ())))
        converged, pairs = _json(notes, "converged", (True, False)), _json(notes, "complex", _COMPLEX)
        known = {"method": notes["method"], "converged": converged, "start": notes.get("start", "")}
        return _fields(outer, pairs) | known, _fields(inner, pairs) | known if inner else None
    except RecordError as error:
        raise RecordError(f"{path} is damaged, or from another version: {error}") from None


def _fields(tensors: dict[str, Tensor], pairs: list[str]) -> dict[str, Any]:
    """Tensors and numbers of one diagonalisation, checked."""
    for name, t in tensors.items():
        if t.dtype != torch.float64:
            raise RecordError(f"{name} holds {t.dtype}, not torch.float64")
    for name in pairs:
        if name not in tensors or tensors[name].shape[-1:] != (2,):
            shape = tuple(tensors[name].shape) if name in tensors else None
            raise RecordError(f"{name} has shape {shape}, not pairs of real and imaginary parts")
        tensors[name] = torch.view_as_complex(tensors[name])
    _check_shapes(tensors)
    _check_values(tensors)
    numbers = {name: tensors.pop(name) for name in NUMBERS}
    return tensors | {name: t if t.ndim else t.item() for name, t in numbers.items()}


_MODES = ["Lambda", "V", "V_inv"]
_COMPLEX = (_MODES, [*_MODES, "E"], [*_MODES, "E", "A"])  # E of a real matrix is real


def _read(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    from safetensors import SafetensorError, safe_open

    if not path.is_file():
        raise RecordError(f"there is no file {path}")
    try:
        with safe_open(str(path), framework="pt") as file:
            # Copied, as PyTorch wants complex numbers at multiples of 16 bytes and a file puts them anywhere.
            return {key: file.get_tensor(key).clone() for key in file.keys()}, file.metadata() or {}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise RecordError(f"{path} is not a safetensors file, or is damaged: {error}") from None


def _check_names(found: Mapping[str, Any], expected: tuple[str, ...]) -> None:
    lacks, extra = [k for k in expected if k not in found], [k for k in found if k not in expected]
    if lacks:
        raise RecordError(f"it lacks {', '.join(map(repr, lacks))}")
    if extra:
        raise RecordError(f"it holds {', '.join(map(repr, extra))}, which is no part of a diagonalisation")


def _json(notes: Mapping[str, str], name: str, expected: tuple[Any, ...]) -> Any:
    try:
        value = json.loads(notes[name])
    except json.JSONDecodeError:
        value = None
    if not any(value == known and type(value) is type(known) for known in expected):
        raise RecordError(f"its note {name!r} is {notes[name]!r}")
    return value


def _check_shapes(tensors: Mapping[str, Tensor]) -> None:
    """``E`` and ``Lambda`` set n, the number of modes and the batch; a half has at least half of n modes."""
    E, Lambda = tensors["E"], tensors["Lambda"]
    if E.ndim < 2 or Lambda.ndim < 1:
        raise RecordError(f"E has shape {tuple(E.shape)} and Lambda {tuple(Lambda.shape)}, not (n, n) and (n,)")
    n, modes, batch = E.shape[-1], Lambda.shape[-1], tuple(E.shape[:-2])
    if n < 1 or not (n if batch else math.ceil(n / 2)) <= modes <= n:
        raise RecordError(f"Lambda holds {modes} eigenvalues of a matrix with n = {n}")
    expected = {"E": (n, n), "Lambda": (modes,), "V": (n, modes), "V_inv": (modes, n), **dict.fromkeys(NUMBERS, ())}
    expected |= {"A": (n, n)} if "A" in tensors else {}
    for name, shape in expected.items():
        if tuple(tensors[name].shape) != (*batch, *shape):
            raise RecordError(f"{name} has shape {tuple(tensors[name].shape)}, not {(*batch, *shape)}")


def _check_values(tensors: Mapping[str, Tensor]) -> None:
    for name, t in tensors.items():
        lone = name == "gap" and tensors["E"].shape[-1] == 1  # one eigenvalue is infinitely far from the others
        if not bool(torch.isfinite(t).all()) and not (lone and bool((t == math.inf).all())):
            raise RecordError(f"{name} is not finite")
