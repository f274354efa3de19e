"""HiPPO-LegS for the page: S4 and S4D it knows in closed form; modes, spikes and certificates it is given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import SupportsIndex

import torch

from wellposed import hippo
from wellposed._checks import positive_int
from wellposed.errors import ShapeError
from wellposed.explorer._subject import LARGEST, RELS, Data, Subject, Track, cell, distance, floats, no_track
from wellposed.linalg import ptd
from wellposed.systems import s4, s4d, spikes

_SIZES = (8, 16, 32, 64, 128)


def legs_subject(n: SupportsIndex = 64, *, rels: Sequence[float] = RELS, track: Track = no_track) -> Subject:
    """HiPPO-LegS with 8, 16, ... up to ``n`` states, each perturbed by every size of ``rels``.

    Certificates for three output rows of each take about half a minute at n = 64.
    """
    n = positive_int(n, "n")
    if n > LARGEST:
        raise ShapeError(f"the page computes as you move: n = {n} is over {LARGEST}")
    sizes = sorted({*(size for size in _SIZES if size < n), n})
    work = [(size, rel) for size in sizes for rel in (None, *rels)]
    found: dict[int, Data] = {}
    for size, rel in track(work):
        if rel is None:
            found[size] = _start(size)
        else:
            found[size]["cells"].append(_perturbed(size, rel))
    return Subject("HiPPO-LegS", list(found.values()), duration=6.0)  # modes of S4D last 2 units: grown to 95 %


def _rows(n: int) -> list[int]:
    return sorted({1, max(1, n // 2), n})


def _start(n: int) -> Data:
    """The matrix itself, and its normal part alone."""
    A, _ = hippo.legs(n)
    Lambda, V, _, B = hippo.dplr("legs", n)
    rows = _rows(n)
    size = torch.linalg.matrix_norm(A, ord=2).item()
    return {
        "n": n,
        "kind": "legs",
        "norm": size,
        "rows": rows,
        "normal": {
            "lambda": floats(Lambda),
            "residues": floats(torch.stack([V[l - 1] * B / 2 for l in rows])),
            "distances": [distance(s4(n, l=l), s4d(n, l=l)) for l in rows],
            "spikes": [spikes(n, l, 1)[-1].frequency for l in rows],  # the last of each
        },
        # holds the eigenvalues of the normal part, and of A + E for every size
        "box": [-0.8 * size, 0.15 * size, -0.58 * size, 0.58 * size],
        "omega": [0.1, 3.0 * n**2],
        "cells": [],
    }


def _perturbed(n: int, rel: float) -> Data:
    A, B = hippo.legs(n)
    d = ptd(A, rel=rel, stable=True)
    rows = _rows(n)
    systems = [s4(n, l=l, form="dense").diagonalized(d) for l in rows]
    return cell(d, B, rows) | {"distances": [distance(s4(n, l=l), near) for l, near in zip(rows, systems, strict=True)]}
