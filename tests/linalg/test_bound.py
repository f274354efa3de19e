from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from wellposed import ptd
from wellposed.hippo import legs
from wellposed.linalg import gallery
from wellposed.linalg._bound import bounds, condition_bound
from wellposed.records import load_record

NAMES = [name for name in gallery.MATRICES if name != "well-conditioned"]


def kappa(M: Any) -> float:
    """Condition number of eigenvectors at lengths that are best in the Frobenius norm: no less than the infimum."""
    V = np.linalg.eig(M)[1]
    if np.linalg.cond(V) > 1e14:
        return np.inf
    return float(np.linalg.cond(V * np.sqrt(np.linalg.norm(np.linalg.inv(V), axis=1))))


def matrices(rng: np.random.Generator, n: int) -> Any:
    """Triangular, nilpotent, dense, nearly normal or of the gallery; real or complex."""
    kind = rng.integers(6)
    if kind == 5:
        return gallery.MATRICES[NAMES[rng.integers(len(NAMES))]](n).numpy()
    A = rng.standard_normal((n, n)) + (1j * rng.standard_normal((n, n)) if rng.random() < 0.3 else 0)
    A = np.triu(A, int(kind == 1)) if kind < 2 else A
    A = A + 5 * (A + A.conj().T) if kind == 3 else A
    return np.triu(A) + 0.01 * A if kind == 4 else A


def perturbations(rng: np.random.Generator, A: Any, eps: float, count: int) -> Any:
    """Random ones of several shapes, and what the bound would have to fear: polar factors and low ranks."""
    n = len(A)
    for _ in range(count):
        G = rng.standard_normal((n, n)) + 1j * rng.standard_normal((n, n)) * rng.integers(2)
        U, s, Vh = np.linalg.svd(G)
        s = [s, np.ones(n), np.arange(n) == 0, rng.random(n)][rng.integers(4)]
        E = (U * s) @ Vh
        yield eps / np.linalg.norm(E, 2) * E * rng.choice([1.0, 1.0, 0.5])


@pytest.mark.parametrize("seed", range(8))
def test_no_perturbation_beats_it(seed: int):
    fuzz(seed, pairs=40)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 300))
def test_no_perturbation_beats_it_ten_thousand_times(seed: int):
    fuzz(seed, pairs=50)


def fuzz(seed: int, pairs: int) -> None:
    rng = np.random.default_rng(seed)
    A = matrices(rng, int(rng.integers(2, 9)))
    size = float(np.linalg.norm(A, 2))
    eps = size * float(rng.choice([1e-6, 1e-3, 0.01, 0.1, 0.3]))
    bound = condition_bound(A, eps)
    assert bound >= 1
    reached = [kappa(A + E) for E in perturbations(rng, A, eps, pairs)]
    reached += [float(ptd(A, eps=eps, stable=False).condition)]
    assert bound <= min(reached) * (1 + 1e-9)


@pytest.mark.parametrize(("name", "rel"), [("jordan:2", 0.1), ("jordan:4", 0.01), ("demmel:6", 1e-3), ("legs:6", 0.1)])
def test_optimised_perturbations_do_not_beat_it(name: str, rel: float):
    d = ptd(gallery.matrix(name), rel=rel, method="optimized", stable=False)
    assert 1 < d.condition_bound <= d.condition


def test_sharp_for_a_jordan_block():
    A = np.array([[0.0, 1.0], [0.0, 0.0]])
    for eps in (0.1, 1e-2, 1e-4):
        best = float(ptd(A, eps=eps, method="optimized").condition)
        assert 0.99 * best < condition_bound(A, eps) <= best


@pytest.mark.parametrize("n", [4, 8, 16])
def test_on_legs(n: int):
    by_angle, by_area = bounds(legs(n)[0].numpy() / n**2, 0.1 * float(np.linalg.norm(legs(n)[0], 2)) / n**2)
    assert by_angle > 2
    assert by_angle > by_area


def test_pages_show_what_was_recorded():
    root = Path(__file__).parents[2]
    bound, auto = ((root / f"docs/devdocs/{name}.md").read_text(encoding="utf-8") for name in ("bound", "auto"))
    limits = load_record(root / "results/condition-vs-size.json").data["limits"]
    assert [row["n"] for row in limits] == [8, 16, 32, 64, 128]
    shown = {f"| legs:{row['n']} | 0.1 | {row['bound']:.2f} | {row['condition']:.2f} |" for row in limits}
    rows = load_record(root / "results/any-matrix.json").data["rows"]
    for row in rows:
        found = [m for m in row["methods"].values() if m["condition"] is not None and m["abscissa"] is not None]
        best = min(m["condition"] for m in found if not row["abscissa"] < 0 <= m["abscissa"])
        size = "0.1" if row["rel"] == 0.1 else "10⁻³"
        shown.add(f"| {row['name']} | {size} | {row['bound']:.3g} | {best:.3g} |")
        if row["rel"] == 0.1:
            m = row["methods"]["auto"]
            shown.add(
                f"| {row['name']} | {m['condition']:.2f} | {best:.2f} | {row['bound']:.2f} | {m['seconds']:.1f} | "
                f"{row['abscissa']:.2g}, {m['abscissa']:.2g} |"
            )
    for page, count in ((bound, 10), (auto, 13)):
        lines = [line for line in page.splitlines() if line.startswith("| ") and ":" in line]
        assert len(lines) == count
        assert set(lines) <= shown


def test_areas_count_where_perturbations_are_small():
    by_angle, by_area = bounds(legs(8)[0].numpy() / 64, 1e-3 * float(np.linalg.norm(legs(8)[0], 2)) / 64)
    assert by_area > 20
    assert by_angle > 15


def test_normal_matrices_and_units():
    assert condition_bound(np.diag([1.0, 2.0, 3.0]), 0.1) == pytest.approx(1, abs=1e-9)
    assert condition_bound(np.zeros((3, 3)), 0.1) == 1
    assert condition_bound(np.array([[2.0]]), 0.1) == 1
    assert condition_bound(np.array([[1.0, 1e-300], [0.0, 1.0]]), 0.0) == 1  # and no warning on the way
    A = legs(5)[0].numpy()
    here = condition_bound(A, 1.0)
    for unit in (2.0**-900, 2.0**900):
        assert condition_bound(unit * A, unit) == pytest.approx(here, rel=1e-9)


def test_of_a_result():
    A = np.stack([legs(5)[0].numpy(), np.eye(5, k=1)])
    d = ptd(A, rel=0.1)
    singles = [ptd(M, rel=0.1).condition_bound for M in A]
    assert isinstance(d.condition_bound, torch.Tensor)
    assert d.condition_bound.tolist() == singles
    one = ptd(A[0], rel=0.1)
    assert one.half().condition_bound == one.condition_bound
