"""How exact condition numbers and pseudospectra are, on one core, and how long a portrait takes."""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from wellposed import pseudospectra
from wellposed.linalg import gallery
from wellposed.linalg._condition import optimal_scaling
from wellposed.records import provenance

NAMES = (
    "legs:40",
    "legt:40",
    "grcar:48",
    "convection:40",
    "kahan:40",
    "jordan:40",
    "bull-head:40",
    "two-jordans:40",
    "davies:48",
)
TIMED = (("legs:100", 100), ("legs:200", 100), ("grcar:200", 100), ("legs:200", 200), ("grcar:200", 200))
RANDOM = 112  # matrices


def condition_numbers() -> dict[str, Any]:
    """Widths of the brackets around condition numbers of random matrices, and what their columns' lengths gain."""
    widths, balanced = [], []
    for k in range(RANDOM):
        rng = np.random.default_rng(k)
        n, below = (4, 8, 16, 32)[k % 4], 0.8 * rng.random()
        G = rng.standard_normal((n, n))
        V = np.linalg.eig(np.triu(G) + below * np.tril(G, -1))[1]
        W = np.linalg.inv(V)
        best = optimal_scaling(V, W)
        widths.append(best.condition / best.lower - 1)
        lengths = np.sqrt(np.linalg.norm(W, axis=1))  # column j of V and row j of W become equally long
        balanced.append(np.linalg.cond(V * lengths) / best.condition - 1)
    for name, values in (("width of the bracket", widths), ("balanced columns above the infimum", balanced)):
        print(
            f"{len(values)} random matrices, {name}: {max(values):.2%} at most, {np.median(values):.2%} in the median"
        )
    return {"matrices": len(widths), "widths": _summary(widths), "balanced": _summary(balanced)}


def portrait(name: str, points: int = 30) -> dict[str, Any]:
    """Largest errors of sigma_min, against a decomposition at every place that means something."""
    A = gallery.matrix(name)
    drawn = pseudospectra(A, points=points)
    z = drawn.x.numpy() + 1j * drawn.y.numpy()[:, None]
    exact = np.linalg.svd(A.numpy() - z[..., None, None] * np.eye(len(A)), compute_uv=False)[..., -1]
    error = (drawn.sigma.numpy() / exact - 1)[exact > 1e-12 * np.linalg.norm(A.numpy(), 2)]
    row = {"name": name, "too_large": max(error.max(), 0.0), "too_small": max(-error.min(), 0.0)}
    print(f"{name:16} too large by {row['too_large']:.0e}, too small by {row['too_small']:.0e}", flush=True)
    return row


def cost(name: str, points: int) -> dict[str, Any]:
    """Seconds of a portrait, and what a decomposition at each of its places would take."""
    A = gallery.matrix(name)
    start = time.perf_counter()
    pseudospectra(A, points=points)
    ours = time.perf_counter() - start
    shifted = A.numpy() + (0.1 + 0.2j) * np.eye(len(A))
    times = []
    for _ in range(5):
        start = time.perf_counter()
        np.linalg.svd(shifted, compute_uv=False)
        times.append(time.perf_counter() - start)
    places = points * ((points + 1) // 2)  # a real matrix: the other half is a mirror image
    print(f"{name:16} {points} x {points}: {ours:6.1f} s; by decompositions {places * min(times):6.1f} s", flush=True)
    return {"name": name, "points": points, "seconds": ours, "one_decomposition": min(times), "places": places}


def _summary(values: list[float]) -> dict[str, float]:
    return {"largest": float(max(values)), "median": float(np.median(values))}


def main() -> None:
    """Print the tables; with --record, keep them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--record", type=Path, help="write the tables and their provenance to this JSON file")
    path = parser.parse_args().record
    torch.set_num_threads(1)
    start = time.perf_counter()
    record = {
        "condition": condition_numbers(),
        "pseudospectra": [portrait(name) for name in NAMES],
        "cost": [cost(name, points) for name, points in TIMED],
    }
    if path:
        record["provenance"] = provenance("python benchmarks/accuracy.py", time.perf_counter() - start, seed=0)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
