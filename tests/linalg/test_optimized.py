from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from covering import covering
from wellposed import ptd
from wellposed.hippo import legs
from wellposed.linalg import gallery
from wellposed.linalg._optimized import Problem, _objective
from wellposed.records import load_record

# Tables "cond" and "perturbation" of the paper, gamma = 10 .. 1e7.
PAPER = {
    8: ([4.40, 8.62, 17.3, 35.1, 71.2, 145, 296], [2.81, 1.16, 0.478, 0.198, 0.0824, 0.0345, 0.0145]),
    16: ([6.59, 13.2, 26.9, 55.3, 114, 235, 486], [6.77, 2.86, 1.22, 0.518, 0.222, 0.0950, 0.0409]),
}
KINDS: dict[str, dict[str, Any]] = {
    "eps": {"eps": 0.3},
    "eps, unit columns": {"eps": 0.3, "unit_columns": True},
    "eps, margin": {"eps": 0.3, "margin": 5.0},
    "gamma, fro": {"gamma": 2.0, "norm": "fro"},
    "gamma, fro, power 2": {"gamma": 20.0, "norm": "fro", "power": 2},
    "gamma, spectral": {"gamma": 2.0, "norm": "spectral"},
    "gamma, spectral, power 2, unit columns": {"gamma": 2.0, "norm": "spectral", "power": 2, "unit_columns": True},
    "gamma, margin": {"gamma": 2.0, "power": 2, "margin": 5.0},
}


@pytest.mark.parametrize("p", [8.0, 32.0])
@pytest.mark.parametrize("complex_valued", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_gradient(kind: str, complex_valued: bool, p: float):
    n = 5
    A = legs(n)[0].numpy() + (1j * np.eye(n, k=1) if complex_valued else 0)
    rng = np.random.default_rng(1)
    objective = _objective(Problem(A, **KINDS[kind]), p, 0.7)
    x = rng.standard_normal((2 if complex_valued else 1) * n * n + n)
    gradient = objective(x)[1]
    assert gradient.any()
    for _ in range(6):
        step = rng.standard_normal(len(x))
        h = 1e-6
        difference = (objective(x + h * step)[0] - objective(x - h * step)[0]) / (2 * h)
        assert gradient @ step == pytest.approx(difference, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("kind", ["eps", "gamma, spectral", "gamma, fro"])
def test_gradient_at_a_perturbation_of_rank_one(kind: str):
    n = 5
    E = np.outer(np.ones(n), np.eye(n)[0])  # exact zeros among the singular values
    x = np.concatenate([E.ravel(), np.zeros(n)])
    objective = _objective(Problem(legs(n)[0].numpy(), **KINDS[kind]), 32.0, 0.7)
    f, gradient = objective(x)
    assert np.isfinite(gradient).all()
    step = np.random.default_rng(0).standard_normal(len(x))
    difference = (objective(x + 1e-6 * step)[0] - objective(x - 1e-6 * step)[0]) / 2e-6
    assert gradient @ step == pytest.approx(difference, rel=1e-4)
    assert f < 1e10


def test_a_line_search_beyond_floats_ends():
    """LAPACK's singular values of a matrix with one infinite column come never, or with complaints on stdout."""
    n = 5
    objective = _objective(Problem(legs(n)[0].numpy(), **KINDS["eps"]), 32.0, 0.7)
    for log_lengths in (np.full(n, 800.0), 800.0 * np.eye(n)[0]):
        f, gradient = objective(np.r_[np.ones(n * n), log_lengths])
        assert f == 1e10
        assert not gradient.any()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["legs:8", "legs:15", "legs:32", "grcar:20", "jordan:12", "bull-head:8"])
def test_never_worse_than_rank_one(name: str):
    A = gallery.matrix(name)
    closed, refined = (ptd(A, rel=0.02, method=method) for method in ("rank-one", "optimized"))
    assert refined.norm_E == pytest.approx(closed.norm_E, rel=1e-9)
    # Each is known to half a percent.
    assert refined.condition <= 1.005 * closed.condition


def test_refines_what_the_closed_form_leaves():
    closed, refined = (ptd(legs(8)[0], eps=2.81, method=method) for method in ("rank-one", "optimized"))
    assert refined.method == "optimized"
    assert refined.converged
    assert refined.condition < 0.95 * closed.condition


@pytest.mark.slow
@pytest.mark.parametrize("stable", ["keep", False])
@pytest.mark.parametrize(("n", "kappa"), [(16, 2.972), (64, 2.981)])
def test_close_to_the_best_known_whether_stability_is_kept_or_let_go(n: int, kappa: float, stable: Any):
    d = ptd(legs(n)[0], method="optimized", rel=0.1, stable=stable)
    assert d.condition <= kappa
    assert d.rel == pytest.approx(0.1, rel=1e-9)
    assert not stable or d.abscissa < 0


def test_two_equal_blocks_have_a_best_compromise_too():
    """No perturbation of rank one makes a derogatory matrix diagonalisable: gamma starts from random ones there."""
    A = gallery.matrix("two-jordans:5")
    d = ptd(A, gamma=1.0)
    assert d.start == "gaussian, seed 0"
    ours, other = (float(x.condition) + np.linalg.norm(x.E.numpy()) for x in (d, ptd(A, rel=0.3)))
    assert ours <= 1.01 * other


@pytest.mark.parametrize(("n", "k"), covering(list(PAPER), range(7), every=3))
def test_below_the_paper(n: int, k: int):
    kappa, size = PAPER[n][0][k], PAPER[n][1][k]
    A = legs(n)[0].numpy()
    d = ptd(A, eps=size, method="optimized", stable=True)
    V, E = d.V.numpy(), d.E.numpy()
    assert np.linalg.cond(V) < kappa
    assert np.linalg.norm(E, 2) <= size * (1 + 1e-12)
    assert np.isrealobj(E)
    assert d.Lambda.real.max() < 0
    assert np.linalg.norm((V * d.Lambda.numpy()) @ d.V_inv.numpy() - A - E, 2) < 1e-9 * np.linalg.norm(A, 2)


def test_a_complex_perturbation_is_never_worse_than_a_real_one():
    A = legs(12)[0]
    real, wide = (ptd(A, method="optimized", rel=0.1, field=field) for field in ("auto", "complex"))
    assert wide.E.is_complex()
    assert wide.condition <= 1.005 * real.condition  # each is known to half a percent
    assert wide.rel == pytest.approx(0.1)


@pytest.mark.parametrize("fails", [1, 3])
def test_a_decomposition_that_does_not_converge_is_done_again(fails: int, monkeypatch: pytest.MonkeyPatch):
    """Which matrices defeat the fast algorithm depends on the LAPACK at hand: here every third one, or all."""
    A = np.outer(np.ones(12), np.r_[np.ones(6), -np.ones(6)])
    calls, svd = [0], np.linalg.svd

    def fragile(*args: Any, **options: Any) -> Any:
        calls[0] += 1
        if calls[0] % fails == 0:
            raise np.linalg.LinAlgError("SVD did not converge")
        return svd(*args, **options)

    usual = ptd(A, method="optimized")
    monkeypatch.setattr(np.linalg, "svd", fragile)
    d = ptd(A, method="optimized")
    assert d.condition == pytest.approx(usual.condition, rel=0.1)
    assert d.residual < 1e-14


def test_the_page_shows_what_was_recorded():
    root = Path(__file__).parents[2]
    data = load_record(root / "results/default-perturbation.json").data
    page = (root / "docs/devdocs/optimized.md").read_text(encoding="utf-8")
    wishes = {"as it comes": "", "stable": ", `stable=True`", "margin 0.5": ", `margin=0.5`"}
    shown = [
        f"| {row['rel']:g} | closed form | {row['condition']:.2f} | {row['abscissa']:.2f} | {row['error']:.2g} | |"
        for row in data["rows"]
        if row["n"] == 32 and row["rel"] in (0.1, 0.01)
    ]
    for row in data["optimized"]:
        end = (
            f"+{row['abscissa']:.1f} | unstable"
            if row["error"] is None
            else f"{row['abscissa']:.2f} | {row['error']:.2g}"
        )
        done = "yes" if row["converged"] else "no"
        shown.append(f"| {row['rel']:g} | optimised{wishes[row['wish']]} | {row['condition']:.2f} | {end} | {done} |")
    assert len(shown) == 8
    assert all(line in page for line in shown)
