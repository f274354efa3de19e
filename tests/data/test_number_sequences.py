"""Sequences of numbers that differ in length: padded, masked and bucketed as tokens are; what cannot be is refused."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch

from wellposed.data import Batch, Builder, Info, Task, Vocabulary, load, prepare
from wellposed.data._rows import RaggedRows, _gather_by_index
from wellposed.errors import DataError
from wellposed.nn import SequenceClassifier


@dataclass(frozen=True)
class Waves(Task):
    """Numbers, as of a microphone or of several sensors, of different lengths."""

    name: ClassVar[str] = "waves"
    channels: int = 1

    def build(self, out: Builder) -> Info:
        rng = np.random.default_rng(4)
        x = [rng.normal(size=(n, self.channels)).astype(np.float32) for n in rng.integers(1, 50, size=40)]
        out.write("train", x, rng.integers(2, size=40))
        return Info("waves", "generated", 50, channels=self.channels, classes=("no", "yes"))


@pytest.mark.parametrize("channels", [1, 3])
def test_numbers_of_different_lengths(tmp_path: Path, channels: int):
    dataset = load(Waves(channels), tmp_path)
    rng = np.random.default_rng(4)
    written = [rng.normal(size=(n, channels)).astype(np.float32) for n in rng.integers(1, 50, size=40)]
    assert dataset.lengths.tolist() == [len(x) for x in written]
    for item, x in enumerate(written):
        np.testing.assert_array_equal(dataset[item][0].numpy(), x)
    batch = dataset.batch([2, 7, 11], multiple=16)
    assert isinstance(batch, Batch)
    assert batch.lengths is not None
    assert batch.lengths.tolist() == [len(written[i]) for i in (2, 7, 11)]
    assert batch.x.shape[1:] == (-(-max(batch.lengths.tolist()) // 16) * 16, channels)
    for row, item in enumerate((2, 7, 11)):
        padded = np.zeros(batch.x.shape[1:], np.float32)
        padded[: len(written[item])] = written[item]
        np.testing.assert_array_equal(batch.x[row].numpy(), padded)
    rows = dataset.rows
    assert isinstance(rows, RaggedRows)
    items = torch.tensor([39, 0, 5, 5])  # the last one too, behind which there is nothing
    x, lengths = rows.gather(items, 8)
    assert torch.equal(x, _gather_by_index(rows.values, rows.offsets[items], lengths, x.shape[1]))
    together, mixed = (list(dataset.batches(4, bucket=bucket)) for bucket in (None, False))
    assert sum(b[0].shape[1] for b in together) < sum(b[0].shape[1] for b in mixed), "bucketed unless told otherwise"


@pytest.mark.parametrize("channels", [1, 3])
def test_a_padded_batch_scores_as_its_sequences_alone(tmp_path: Path, channels: int):
    dataset = load(Waves(channels), tmp_path)
    model = SequenceClassifier(**dataset.sizes, d_model=8, n_layers=2, seed=0).double().eval()
    batch = dataset.batch(range(40), multiple=64)
    assert isinstance(batch, Batch)
    with torch.no_grad():
        together = model(batch.x.double(), lengths=batch.lengths)
        alone = torch.cat([model(dataset[item][0][None].double()) for item in range(40)])
    torch.testing.assert_close(together, alone, rtol=0, atol=1e-12)  # float64: scores of order 1


@dataclass(frozen=True)
class Anything(Task):
    """Whatever a test wants to write."""

    name: ClassVar[str] = "anything"
    made: ClassVar[dict[str, Any]] = {}

    def build(self, out: Builder) -> Info:
        out.write("train", self.made["x"], [0] * len(self.made["x"]))
        return self.made["info"]


NUMBERS = Info("anything", "generated", 9, channels=1, classes=("no",))
TOKENS = Info("anything", "generated", 9, vocabulary=Vocabulary(("<pad>", "<unk>", "<eos>")), classes=("no",))
SCALED = replace(NUMBERS, mean=(0.0,), std=(1.0,))


def zeros(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return np.zeros(shape, dtype)


@pytest.mark.parametrize(
    ("x", "info", "message"),
    [
        ([zeros(2, 1)], TOKENS, "tokens are whole numbers .* got float32"),
        ([np.array([2])], NUMBERS, r"sequences are float32 \(step, 1 channels\), got int64 \(1,\)"),
        ([zeros(2, 3)], NUMBERS, r"sequences are float32 \(step, 1 channels\), got float32 \(2, 3\)"),
        ([zeros(2)], NUMBERS, r"a list of one-dimensional arrays of whole numbers, or of float32 \(length, channel\)"),
        ([zeros(2, 1, dtype=float)], NUMBERS, r"are float32 \(length, channel\), .* got float64 \(length, 1\)"),
        ([zeros(2, 1, dtype=np.uint8)], SCALED, r"are float32 \(length, channel\), .* got uint8 \(length, 1\)"),
        ([zeros(2, 1), zeros(2, 2)], NUMBERS, r"got float32 \(length, 1\) and float32 \(length, 2\)"),
        ([zeros(2, 1), zeros(2)], NUMBERS, r"got float32 \(length\) and float32 \(length, 1\)"),
        ([np.full((2, 1), np.inf, np.float32)], NUMBERS, "NaN or infinite"),
        ([zeros(2, 1), np.full((3, 1), np.nan, np.float32)], NUMBERS, "NaN or infinite"),
        ([zeros(2, 1), zeros(0, 1)], NUMBERS, "lengths go from 0 to 2, not from 1 to 9"),
        ([zeros(10, 1)], NUMBERS, "lengths go from 10 to 10, not from 1 to 9"),
        ([zeros(2, 1)], SCALED, r"pixels \(uint8\) come with a mean and std, numbers \(float32\) without"),
        ([zeros(2, 1)], replace(NUMBERS, picture=(3, 3)), "pictures of .* have 9 pixels, the smallest 2"),
    ],
)
def test_what_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, x: Any, info: Info, message: str):
    monkeypatch.setattr(Anything, "made", {"x": x, "info": info})
    with pytest.raises(DataError, match=message):
        prepare(Anything(), tmp_path)
