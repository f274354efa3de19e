"""Arguments of a constructor as JSON, with their tensors set aside."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from wellposed.errors import ArgumentError, RecordError
from wellposed.linalg import Diagonalization


def pack(value: Any, tensors: dict[str, Tensor], path: str) -> Any:
    """What JSON can hold, as it is; other things as ``{"$kind": ...}``. Tensors go to ``tensors`` under ``path``."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (Tensor, np.ndarray)):
        return _pack_tensor(torch.as_tensor(value), tensors, path)
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, torch.dtype):
        return {"$dtype": str(value).removeprefix("torch.")}
    if isinstance(value, Diagonalization):
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        return {"$diagonalization": pack(fields, tensors, path)}
    if isinstance(value, (list, tuple)):
        items = [pack(item, tensors, f"{path}.{i}") for i, item in enumerate(value)]
        return items if isinstance(value, list) else {"$tuple": items}
    if isinstance(value, Mapping):
        return {str(name): pack(item, tensors, f"{path}.{name}") for name, item in value.items()}
    raise ArgumentError(
        f"{path.removeprefix('arguments.')} = {value!r} cannot be written to a file: name the layer "
        "(layer='s4ptd', layer_options={...}), or keep the weights alone with state_dict()"
    )


def unpack(value: Any, tensors: Mapping[str, Tensor]) -> Any:
    """What ``pack`` was given."""
    if isinstance(value, list):
        return [unpack(item, tensors) for item in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1 and (kind := next(iter(value))).startswith("$"):
        if kind not in _KINDS:
            raise RecordError(f"unknown kind {kind!r}")
        return _KINDS[kind](value[kind], tensors)
    return {name: unpack(item, tensors) for name, item in value.items()}


def _pack_tensor(value: Tensor, tensors: dict[str, Tensor], path: str) -> dict[str, str]:
    value = value.detach().cpu().resolve_conj()
    tensors[path] = torch.view_as_real(value) if value.is_complex() else value
    return {"$complex" if value.is_complex() else "$tensor": path}


_KINDS = {
    "$tensor": lambda path, tensors: tensors[path],
    "$complex": lambda path, tensors: torch.view_as_complex(tensors[path]),
    "$dtype": lambda name, tensors: getattr(torch, name),
    "$tuple": lambda items, tensors: tuple(unpack(items, tensors)),
    "$diagonalization": lambda fields, tensors: Diagonalization(**unpack(fields, tensors)),
}
