"""The tensors a system is made of: read, checked against each other, and brought to one batch and one precision."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from wellposed._checks import as_tensor as read
from wellposed._checks import finite
from wellposed.errors import ShapeError


def as_tensor(value: Any, name: str) -> Tensor:
    """A finite floating or complex tensor; Python numbers become float64 or complex128, arrays keep their precision."""
    tensor = read(value, name)
    if not (tensor.is_floating_point() or tensor.is_complex()):
        tensor = tensor.to(torch.float64)
    return finite(tensor, name)


def largest_part(t: Tensor) -> float:
    """The largest real or imaginary part: a float, as moduli and norms of large entries need not be."""
    parts = torch.view_as_real(t.resolve_conj()) if t.is_complex() else t
    return parts.abs().max().item() if parts.numel() else 0.0


def fitted_parts(state: dict[str, tuple[Tensor, int]], B: Any, C: Any, D: Any) -> tuple[dict[str, Tensor], bool]:
    """All tensors by name, ``B``, ``C`` and ``D`` as matrices, and whether ``B`` and ``C`` were vectors.

    ``state`` maps the names of the tensors of ``A`` to them, and to how many of their axes are not batch.
    """
    name, (first, own) = next(iter(state.items()))
    batch_ndim, n = first.ndim - own, first.shape[-1]
    if n < 1:
        raise ShapeError(f"{name} has shape {tuple(first.shape)}: a system needs n >= 1 states")
    B, C = as_tensor(B, "B"), as_tensor(C, "C")
    vectors = B.ndim == batch_ndim + 1, C.ndim == batch_ndim + 1
    B = B[..., :, None] if vectors[0] else B
    C = C[..., None, :] if vectors[1] else C
    for label, t in (("B", B), ("C", C)):
        if t.ndim != batch_ndim + 2:
            raise ShapeError(
                f"{label} has {t.ndim} axes, but {name} has {batch_ndim} batch axes: "
                f"give {label} {batch_ndim + 1} axes for a single channel or {batch_ndim + 2} for several"
            )
    if B.shape[-2] != n or C.shape[-1] != n:
        raise ShapeError(f"{name} has n = {n} states, B has {B.shape[-2]} rows and C {C.shape[-1]} columns")
    D = _feedthrough(D, C.shape[-2], B.shape[-1], batch_ndim, B)
    return _fitted(state | {"B": (B, 2), "C": (C, 2), "D": (D, 2)}), all(vectors)


def _feedthrough(D: Any, p: int, m: int, batch_ndim: int, like: Tensor) -> Tensor:
    """``D`` as a matrix: zero if not given, and one number where there is one channel."""
    if D is None:
        return torch.zeros((1,) * batch_ndim + (p, m), dtype=like.real.dtype, device=like.device)
    D = as_tensor(D, "D")
    if D.ndim == 0:
        D = D.expand((1,) * batch_ndim + (1, 1))
    elif (p, m) == (1, 1) and D.ndim == batch_ndim:
        D = D[..., None, None]
    D = D.to(like.device)
    if D.ndim != batch_ndim + 2 or D.shape[-2:] != (p, m):
        raise ShapeError(
            f"D has shape {tuple(D.shape)}; with {p} outputs and {m} inputs it must be one number, "
            f"or have {batch_ndim} batch axes and end in ({p}, {m})"
        )
    return D


def _fitted(parts: dict[str, tuple[Tensor, int]]) -> dict[str, Tensor]:
    """The tensors with one batch shape and one precision; real ones stay real."""
    devices = {str(t.device) for t, _ in parts.values()}
    if len(devices) > 1:
        raise ShapeError(f"the matrices live on {', '.join(sorted(devices))}: move them to one device first")
    batches = {key: tuple(t.shape[: t.ndim - own]) for key, (t, own) in parts.items()}
    try:
        batch = np.broadcast_shapes(*batches.values())  # torch's own loads sympy, which takes a second
    except ValueError:
        raise ShapeError(f"batch shapes do not fit together: {batches}") from None
    real = torch.float32  # the lowest: half precisions have no solvers
    for t, _ in parts.values():
        real = torch.promote_types(real, t.dtype.to_real())
    return {
        key: t.to(real.to_complex() if t.is_complex() else real).expand(batch + t.shape[t.ndim - own :])
        for key, (t, own) in parts.items()
    }
