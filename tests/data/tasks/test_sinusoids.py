from __future__ import annotations

from pathlib import Path

import mpmath
import numpy as np
import pytest

from wellposed.data import Sinusoids, load
from wellposed.errors import ArgumentError

SMALL = {"count": 400, "steps": 500, "grid": (11, 6)}


@pytest.mark.parametrize("problem", ["interp", "extrap"])
def test_frequencies_lie_in_their_domains(tmp_path: Path, problem: str):
    def frequencies(split: str) -> np.ndarray:
        return load("sinusoids", tmp_path, split, problem=problem, **SMALL).y[:, 0].numpy()

    for split in ("train", "val", "seen"):
        s = frequencies(split)
        assert np.all((s <= 40) | (s >= 60)) if problem == "interp" else s.max() <= 80
    unseen = frequencies("unseen")
    low, high = (40, 60) if problem == "interp" else (80, 100)
    assert low <= unseen.min() < low + 2
    assert high - 2 < unseen.max() <= high
    # Uniform: the share of the lower interval is 1/2; four standard errors.
    share = np.mean(frequencies("train") <= 40)
    assert abs(share - 0.5) <= 4 * np.sqrt(0.25 / SMALL["count"])


def test_the_test_split_is_a_grid(tmp_path: Path):
    y = load("sinusoids", tmp_path, "test", **SMALL).y.numpy()
    assert sorted(set(y[:, 0].tolist())) == pytest.approx(np.linspace(0, 100, 11))
    assert sorted(set(y[:, 1].tolist())) == pytest.approx(np.linspace(0, 1, 6))
    assert len(np.unique(y, axis=0)) == 66


def test_scaled_frequencies_are_shares_of_the_largest(tmp_path: Path):
    plain, scaled = (load("sinusoids", tmp_path, "unseen", scaled=scaled, **SMALL) for scaled in (False, True))
    assert np.allclose(scaled.y.numpy(), plain.y.numpy() / [100, 1], rtol=1e-6)
    assert np.array_equal(plain[0][0], scaled[0][0])


def test_waves_are_what_their_targets_say(tmp_path: Path):
    """Against mpmath, from the targets as float32 has them: s t reaches 50, so that 100 * 6e-8 * 0.5 is lost there."""
    data = load("sinusoids", tmp_path, "train", **SMALL)
    for i in range(0, 400, 40):
        x, (s, A) = data[i]
        for k in range(0, 500, 50):
            expected = mpmath.mpf(float(A)) * mpmath.sin(mpmath.mpf(float(s)) * k / 1000)
            assert float(x[k, 0]) == pytest.approx(float(expected), abs=1e-5)


def test_splits_and_seeds_differ(tmp_path: Path):
    first = {split: load("sinusoids", tmp_path, split, **SMALL).y for split in ("train", "val", "seen")}
    assert not set(first["val"][:, 0].tolist()) & set(first["seen"][:, 0].tolist())
    assert not np.array_equal(first["train"], load("sinusoids", tmp_path, "train", seed=1, **SMALL).y)


def test_defaults_resolve_every_frequency():
    task = Sinusoids()
    assert (task.dt, task.steps) == (1e-3, 10_000)
    with pytest.raises(ArgumentError, match=r"dt must be above 0 and below pi / 100 = 0\.0314, .* got 1"):
        Sinusoids(dt=1.0)
    with pytest.raises(ArgumentError, match="grid of 2 x 2"):
        Sinusoids(grid=(1, 5))
