"""Toy data: any shape, the same each time, and something to learn in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from wellposed.data import load, task
from wellposed.errors import ArgumentError


@pytest.mark.parametrize(
    ("options", "sizes"),
    [
        ({"channels": 3, "classes": 10}, {"d_input": 3, "d_output": 10}),
        ({"vocabulary": 18, "classes": 10}, {"d_input": None, "d_output": 10, "vocabulary": 18, "padding_idx": 0}),
        ({"vocabulary": 98, "pairs": True}, {"d_input": None, "d_output": 2, "vocabulary": 98, "padding_idx": 0}),
    ],
)
def test_sizes_are_those_asked_for(options: dict[str, Any], sizes: dict[str, Any], tmp_path: Path):
    for split, size in (("train", 64), ("val", 16), ("test", 16)):
        data = load("toy", tmp_path, split, length=32, **options)
        assert data.sizes == sizes
        assert len(data) == size
        assert data.lengths.max() <= 32
        assert set(data.y.tolist()) == set(range(sizes["d_output"]))
        assert data.rows.ragged == ("vocabulary" in options)


def test_classes_can_be_told(tmp_path: Path):
    waves = load("toy", tmp_path, classes=4)
    x = torch.stack([x for x, _ in waves])[..., 0]
    assert torch.equal(torch.fft.rfft(x, dim=1).abs()[:, 1:5].argmax(1), waves.y)
    texts = load("toy", tmp_path, vocabulary=18, classes=10)
    most = torch.stack([torch.bincount(x, minlength=18)[3:13].argmax() for x, _ in texts])
    assert (most == texts.y).float().mean() > 0.8
    pairs = load("toy", tmp_path, vocabulary=18, pairs=True)
    kinds = [[torch.bincount(x, minlength=18)[3:5].argmax() for x in (a, b)] for a, b, _ in pairs]
    assert sum((a == b) == y for (a, b), y in zip(kinds, pairs.y == 1, strict=True)) > 0.9 * len(pairs)


def test_seeds_make_other_sequences(tmp_path: Path):
    first, other = (load("toy", tmp_path, seed=seed)[0][0] for seed in (0, 1))
    assert not torch.equal(first, other)
    (tmp_path / "again").mkdir()
    assert torch.equal(first, load("toy", tmp_path / "again", seed=0)[0][0])


@pytest.mark.parametrize("options", [{"length": 3}, {"vocabulary": 4}, {"pairs": True}, {"classes": 1}])
def test_shapes_that_cannot_be(options: dict[str, Any]):
    with pytest.raises(ArgumentError, match=r"need length >= 4|from 5 to 20000|pairs are of tokens"):
        task("toy", **options)
