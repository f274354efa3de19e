"""The closed form against gradient descent through the eigenvectors, on one core, in one run."""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import torch

from wellposed import ptd
from wellposed.hippo import legs
from wellposed.records import provenance


def adam(A: torch.Tensor, gamma: float, steps: int, rate: float = 0.1) -> dict[str, float]:
    """The paper's way: Adam on E through torch.linalg.eig, for kappa^2 + gamma ||E||_F, from a random start."""
    E = (0.1 * torch.randn(A.shape, dtype=A.dtype, generator=torch.Generator().manual_seed(0))).requires_grad_()
    optimizer = torch.optim.Adam([E], lr=rate)
    start = time.perf_counter()
    kappa = norm = torch.tensor(0.0)
    for _ in range(steps):
        optimizer.zero_grad()
        s = torch.linalg.svdvals(torch.linalg.eig(A + E).eigenvectors)
        kappa, norm = s[0] / s[-1], torch.linalg.matrix_norm(E)
        (kappa**2 + gamma * norm).log().backward()
        optimizer.step()
    return {"seconds": time.perf_counter() - start, "condition": kappa.item(), "frobenius": norm.item()}


def closed_form(n: int, rel: float, repeat: int) -> dict[str, Any]:
    """Best time of a few runs, and what came out."""
    A, _ = legs(n)
    times, results = [], []
    for _ in range(repeat):
        start = time.perf_counter()
        results.append(ptd(A, method="rank-one", rel=rel, stable=True))
        times.append(time.perf_counter() - start)
    d = results[-1]
    what = f"kappa = {d.condition:.4g}, max Re = {d.abscissa:.3f}"
    print(f"rank-one, n = {n:5}, rel = {rel:g}: {min(times):9.4f} s   {what}")
    return {"n": n, "rel": rel, "seconds": min(times), "condition": d.condition, "abscissa": d.abscissa}


def main() -> None:
    """Print the table; with --record, keep it; with --large, include n = 1024."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--record", type=Path, help="write the table and its provenance to this JSON file")
    parser.add_argument("--large", action="store_true", help="include n = 1024, minutes on one core")
    parser.add_argument("--steps", type=int, default=3000, help="steps of Adam")
    options = parser.parse_args()
    torch.set_num_threads(1)
    start = time.perf_counter()
    rows = [closed_form(n, 0.1, 3) for n in (32, 64, 128, 256)]
    rows += [closed_form(1024, 0.1, 1)] if options.large else []
    A, _ = legs(64)
    against = adam(A, 10.0, options.steps)
    start_one = time.perf_counter()
    same = ptd(A, method="rank-one", eps=against["frobenius"], stable=True)  # rank one: both norms are the same
    ratio = against["seconds"] / (time.perf_counter() - start_one)
    print(
        f"Adam,     n =    64, {options.steps} steps: {against['seconds']:9.1f} s   kappa = {against['condition']:.4g}"
    )
    print(f"closed form at the same Frobenius norm, {against['frobenius']:.3g}: kappa = {same.condition:.4g}")
    print(f"closed form: {ratio:.0f} times faster")
    if options.record:
        made_by = provenance("python benchmarks/ptd.py", time.perf_counter() - start, seed=0)
        adams = against | {"n": 64, "gamma": 10.0, "steps": options.steps}
        closed = {"condition": same.condition, "abscissa": same.abscissa, "ratio": ratio}
        record = {"rows": rows, "adam": adams, "closed_form_at_the_same_norm": closed, "provenance": made_by}
        options.record.parent.mkdir(parents=True, exist_ok=True)
        options.record.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
