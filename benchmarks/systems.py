"""What the structure buys, on one core: our time, a baseline's time and their ratio, measured in this one run."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.signal
import torch

from wellposed.records import provenance
from wellposed.systems import linf_distance, s4, s4d, spikes, to_scipy
from wellposed.systems.closed_forms import G_difference


def seconds(task: Callable[[], Any], repeat: int = 3) -> float:
    """Best of a few runs, after one to warm up."""
    task()
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        task()
        times.append(time.perf_counter() - start)
    return min(times)


def product_formula(omega: np.ndarray, n: int) -> np.ndarray:
    """Lemma 1 as it stands: n factors a frequency, in chunks."""
    j = np.arange(1, n)
    out = np.empty(len(omega), dtype=complex)
    for k in range(0, len(omega), 200):
        s = 1j * omega[k : k + 200, None]
        a = (s / (s + n))[:, 0] * ((s - j) / (s + j)).prod(axis=1)
        out[k : k + 200] = -a / (1 + a) / (s[:, 0] + 1) / np.sqrt(2)
    return out


def closed_form(frequencies: int = 2000, n: int = 10_000) -> dict[str, Any]:
    """Lemma 1 in O(1) a frequency against the product of n factors."""
    omega = torch.logspace(-3, 9, frequencies, dtype=torch.float64)
    ours = seconds(lambda: G_difference(1j * omega, n))
    theirs = seconds(lambda: product_formula(omega.numpy(), n), repeat=1)
    return row(f"Lemma 1, {frequencies} frequencies, n = {n}", ours, theirs, "product of n factors")


def simulation(kind: str, steps: int = 100_000, n: int = 64) -> dict[str, Any]:
    """Chunks and a scan against scipy's loop over time."""
    system = (s4(n, form="dense") if kind == "dense" else s4d(n)).discretize(1e-3)
    u = torch.randn(steps, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    reference = to_scipy(system)
    ours = seconds(lambda: system.simulate(u, convention="delayed"))
    theirs = seconds(lambda: scipy.signal.dlsim(reference, u.numpy()), repeat=1)
    return row(f"simulate {kind}, {steps} steps, n = {n}", ours, theirs, "scipy.signal.dlsim")


def hamiltonian_test(exact: Any, diagonal: Any, gamma: float) -> bool:
    """One level-set test for the same distance: has the Hamiltonian matrix an eigenvalue on the imaginary axis?"""
    a, b = exact.to_real(), diagonal.to_real()
    A = scipy.linalg.block_diag(a.A, b.A)
    B, C = np.vstack([a.B, b.B]), np.hstack([a.C, -b.C])
    H = np.block([[A, B @ B.T / gamma], [-C.T @ C / gamma, -A.T]])
    eigenvalues = np.linalg.eigvals(H)
    return bool((np.abs(eigenvalues.real) < 1e-8 * np.abs(eigenvalues)).any())


def distance(n: int = 128) -> dict[str, Any]:
    """The certified search against one eigenvalue problem of a level-set method, which needs several."""
    exact, diagonal = s4(n), s4d(n)
    ours = seconds(lambda: linf_distance(exact, diagonal))
    theirs = seconds(lambda: hamiltonian_test(exact, diagonal, 0.46), repeat=1)
    return row(f"linf_distance S4 to S4D, n = {n}", ours, theirs, "one Hamiltonian eigenvalue problem")


def last_spikes(n: int = 10**6) -> dict[str, Any]:
    """Only our time: no grid finds a spike of width 1 at 3e11."""
    return row(f"last 3 spikes, n = {n}", seconds(lambda: spikes(n, last=3)), None, "")


def row(task: str, ours: float, baseline: float | None, name: str) -> dict[str, Any]:
    """One line of the table, printed as it is measured."""
    ratio = None if baseline is None else baseline / ours
    text = "" if baseline is None or ratio is None else f"{baseline:10.4f} s  {ratio:8.1f} x  {name}"
    print(f"{task:44} {ours:10.4f} s {text}", flush=True)
    return {"task": task, "seconds": ours, "baseline_seconds": baseline, "ratio": ratio, "baseline": name}


def main() -> None:
    """Print the table; with --record, keep it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--record", type=Path, help="write the table and its provenance to this JSON file")
    path = parser.parse_args().record
    torch.set_num_threads(1)  # one core, ours and the baseline's
    start = time.perf_counter()
    print(f"{'task':44} {'ours':>12} {'baseline':>11} {'ratio':>11}")
    rows = [closed_form(), simulation("diagonal"), simulation("dense"), distance(), last_spikes()]
    if path:
        path.parent.mkdir(parents=True, exist_ok=True)
        record = {"rows": rows, "provenance": provenance("python benchmarks/systems.py", time.perf_counter() - start)}
        path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
