"""Items, batches and loaders agree with each other and with the numbers that were written."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from wellposed.data import Batch, Batches, Builder, Info, PairBatch, SequenceDataset, Task, Vocabulary, load
from wellposed.data._rows import RaggedRows, _gather_by_index
from wellposed.errors import ArgumentError, UnknownNameError
from wellposed.nn import PairClassifier, SequenceClassifier, SequenceRegressor

DEVICE = os.environ.get("WELLPOSED_TEST_DEVICE", "cpu")
WORDS = Vocabulary(("<pad>", "<unk>", "<eos>", *"abcdefg"))


def random_tokens(rng: np.random.Generator, count: int) -> list[np.ndarray]:
    return [rng.integers(3, 10, size=n).astype(np.uint8) for n in rng.integers(1, 50, size=count)]


@dataclass(frozen=True)
class Tokens(Task):
    name: ClassVar[str] = "tokens"
    count: int = 40

    def build(self, out: Builder) -> Info:
        rng = np.random.default_rng(0)
        for split in ("train", "test"):
            out.write(split, random_tokens(rng, self.count), rng.integers(2, size=self.count))
        return Info("tokens", "generated", 50, vocabulary=WORDS, classes=("no", "yes"))


@dataclass(frozen=True)
class ManyTokens(Task):
    name: ClassVar[str] = "many-tokens"

    def build(self, out: Builder) -> Info:
        rng = np.random.default_rng(3)
        words = Vocabulary.of_characters(map(chr, range(0x4E00, 0x4E00 + 500)))
        texts = [rng.integers(3, 503, size=n).astype(words.dtype) for n in rng.integers(1, 50, size=40)]
        out.write("train", texts, rng.integers(2, size=40))
        return Info("many-tokens", "generated", 50, vocabulary=words, classes=("no", "yes"))


@dataclass(frozen=True)
class Pairs(Task):
    name: ClassVar[str] = "pairs"

    def build(self, out: Builder) -> Info:
        rng = np.random.default_rng(1)
        out.write("train", random_tokens(rng, 15), rng.integers(2, size=30), pairs=rng.integers(15, size=(30, 2)))
        return Info("pairs", "generated", 50, vocabulary=WORDS, classes=("no", "yes"), pairs=True)


@dataclass(frozen=True)
class Colours(Task):
    name: ClassVar[str] = "colours"

    def build(self, out: Builder) -> Info:
        rng = np.random.default_rng(2)
        out.write("train", rng.integers(256, size=(20, 12, 3)).astype(np.uint8), rng.integers(10, size=20))
        mean, std = (0.5, 0.25, 0.1), (0.2, 0.4, 1.0)
        classes = tuple("0123456789")
        return Info("colours", "generated", 12, channels=3, classes=classes, picture=(3, 4), mean=mean, std=std)


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


@dataclass(frozen=True)
class Sensors(Waves):
    channels: int = 3


@dataclass(frozen=True)
class WavePairs(Task):
    name: ClassVar[str] = "wave-pairs"

    def build(self, out: Builder) -> Info:
        rng = np.random.default_rng(5)
        x = [rng.normal(size=(n, 2)).astype(np.float32) for n in rng.integers(1, 50, size=15)]
        out.write("train", x, rng.integers(2, size=30), pairs=rng.integers(15, size=(30, 2)))
        return Info("wave-pairs", "generated", 50, channels=2, classes=("no", "yes"), pairs=True)


@dataclass(frozen=True)
class Codes(Task):
    """Tokens, all of one length."""

    name: ClassVar[str] = "codes"

    def build(self, out: Builder) -> Info:
        rng = np.random.default_rng(6)
        out.write("train", rng.integers(3, 10, size=(20, 12)), rng.integers(2, size=20))
        return Info("codes", "generated", 12, vocabulary=WORDS, classes=("no", "yes"))


TASKS = [Tokens, ManyTokens, Pairs, Colours, Waves, Sensors, WavePairs, Codes]


@pytest.fixture(params=TASKS, ids=lambda kind: kind.__name__.lower())
def dataset(request: pytest.FixtureRequest, tmp_path: Path) -> SequenceDataset:
    return load(request.param(), tmp_path)


def same(a: Batch | PairBatch, b: Batch | PairBatch) -> bool:
    pairs = zip(a, b, strict=True)
    return all((x is None and y is None) or (x is not None and y is not None and torch.equal(x, y)) for x, y in pairs)


def test_a_batch_is_its_items_side_by_side(dataset: SequenceDataset):
    items = [3, 0, 17, 5, 3]
    batch = dataset.batch(torch.tensor(items))
    assert same(batch, dataset.collate([dataset[i] for i in items]))
    for row, item in enumerate(items):
        *sequences, y = dataset[item]
        assert torch.equal(batch.y[row], y)
        inputs, lengths = (batch[:1], batch[2:]) if isinstance(batch, Batch) else (batch[:2], batch[3:])
        for sequence, x, true_lengths in zip(sequences, inputs, lengths, strict=True):
            assert x is not None
            assert torch.equal(x[row, : len(sequence)], sequence)
            assert not x[row, len(sequence) :].any(), "padding is zero"
            assert true_lengths is None or int(true_lengths[row]) == len(sequence)


def test_any_dataloader_will_do(dataset: SequenceDataset):
    loader = DataLoader(dataset, batch_size=6, collate_fn=dataset.collate)
    for batch, other in zip(loader, dataset.batches(6, shuffle=False), strict=True):
        assert same(batch, other)


def test_processes_of_a_dataloader_read_the_same(dataset: SequenceDataset):
    loader = DataLoader(dataset, batch_size=6, collate_fn=dataset.collate, num_workers=1)
    for batch, other in zip(loader, dataset.batches(6, shuffle=False), strict=True):
        assert same(batch, other)


@pytest.mark.parametrize("method", [pytest.param("spawn", marks=pytest.mark.slow), "forkserver"])
def test_sending_a_dataset_to_a_worker_leaves_its_batches_as_they_were(tmp_path: Path, method: str):
    """Whose memory PyTorch then moves: a view of it would sort by whatever comes to lie there."""
    dataset = load(Tokens(count=400), tmp_path)
    batches, seen = dataset.batches(8, seed=1), dataset.lengths.numpy()
    before, lengths = [batch.tolist() for batch in batches.order.batches(0)], seen.tolist()
    loader = DataLoader(
        dataset, batch_size=8, collate_fn=dataset.collate, num_workers=1, multiprocessing_context=method
    )
    for batch, other in zip(loader, dataset.batches(8, shuffle=False), strict=True):
        assert same(batch, other)
    occupied = [torch.full((n,), -1) for n in range(1, 800)]  # memory given back is written to
    assert [batch.tolist() for batch in batches.order.batches(0)] == before
    assert seen.tolist() == lengths
    assert len(occupied) == 799


def test_batches_made_ahead_are_the_same(dataset: SequenceDataset):
    plain, ahead = (list(dataset.batches(7, seed=3, ahead=ahead)) for ahead in (0, 3))
    assert len(plain) == len(ahead)
    assert all(map(same, plain, ahead))


@pytest.mark.parametrize("resident", [None, True, False])
def test_batches_on_a_device_are_the_same(dataset: SequenceDataset, resident: bool | None):
    """On the device that ``WELLPOSED_TEST_DEVICE`` names; pixels may differ by the rounding of a fused product."""
    plain = list(dataset.batches(7, seed=3))
    moved = list(dataset.batches(7, seed=3, device=DEVICE, resident=resident))
    assert len(plain) == len(moved)
    for a, b in zip(plain, moved, strict=True):
        for here, there in zip(a, b, strict=True):
            assert (here is None) == (there is None)
            if here is not None and there is not None:
                assert there.device.type == torch.device(DEVICE).type
                torch.testing.assert_close(there.cpu(), here, rtol=0, atol=1e-6 if here.is_floating_point() else 0)


def test_on_a_device_everything_is_there(dataset: SequenceDataset):
    batch = next(iter(dataset.to(DEVICE).batches(4)))
    assert {value.device.type for value in batch if value is not None} == {torch.device(DEVICE).type}


@pytest.mark.parametrize("items", [[], [-1], [10_000]])
def test_a_batch_of_items_that_are_not_there(dataset: SequenceDataset, items: list[int]):
    with pytest.raises(ArgumentError, match="a batch is one or more items from 0 to"):
        dataset.batch(items)


def test_a_model_takes_them(dataset: SequenceDataset):
    kind = PairClassifier if dataset.pairs is not None else SequenceClassifier
    model = kind(**dataset.sizes, d_model=8, n_layers=1, layer="s4d", seed=0)
    for batch in dataset.batches(8):
        assert batch.through(model).shape == (len(batch.y), len(dataset.classes))


def test_pixels_are_normalised_by_channel(tmp_path: Path):
    dataset = load(Colours(), tmp_path)
    x = dataset.batch(torch.arange(20))[0]
    raw = np.load(next(tmp_path.glob("prepared/*/train/x.npy"))).astype(np.float64)
    expected = (raw / 255 - [0.5, 0.25, 0.1]) / [0.2, 0.4, 1.0]
    # float32: values up to 2.5, one multiplication and one subtraction
    np.testing.assert_allclose(x.numpy(), expected, atol=1e-6)
    plain = dataset.scaled((0.0,) * 3, (1.0,) * 3).batch(torch.arange(20))[0]
    np.testing.assert_allclose(plain.numpy(), raw / 255, atol=1e-6)
    with pytest.raises(ArgumentError, match="pixels of 3 channels take as many means"):
        dataset.scaled((0.5,), (0.5,))


def test_rows_are_cut_alike_on_cpu_and_as_a_gpu_does_it(tmp_path: Path):
    rows = load(Tokens(), tmp_path).rows
    assert isinstance(rows, RaggedRows)
    picked = torch.tensor([39, 0, 5, 5])
    x, lengths = rows.gather(picked, 8)
    assert x.shape[1] % 8 == 0
    assert torch.equal(x, _gather_by_index(rows.values, rows.offsets[picked], lengths, x.shape[1]))


def test_what_is_read_cannot_change_the_file(tmp_path: Path):
    dataset = load(Colours(), tmp_path)
    dataset.rows[0].fill_(7)
    assert not torch.equal(load(Colours(), tmp_path).rows[0], dataset.rows[0])


def test_sizes_and_names(tmp_path: Path):
    tokens = load(Tokens(), tmp_path, "test")
    assert tokens.sizes == {"d_input": None, "d_output": 2, "vocabulary": 10, "padding_idx": 0}
    assert "tokens test: 40 sequences of up to 50 steps, 10 tokens, 2 classes, generated" in repr(tokens)
    assert tokens.vocabulary == WORDS
    assert load(Colours(), tmp_path).sizes == {"d_input": 3, "d_output": 10}
    waves = load("sinusoids", tmp_path, count=8, steps=64, grid=(2, 2))
    model = SequenceRegressor(**waves.sizes, d_model=8, n_layers=1)
    assert next(iter(waves.batches(8))).through(model).shape == (8, 2)


def test_indices_as_python_has_them(dataset: SequenceDataset):
    assert torch.equal(dataset[-1][0], dataset[len(dataset) - 1][0])
    with pytest.raises(IndexError):
        dataset[len(dataset)]


def test_resumed_batches_are_those_not_yet_handed_out(dataset: SequenceDataset):
    for ahead in (0, 2):
        batches = dataset.batches(4, seed=9, ahead=ahead)
        running = iter(batches)
        for _ in range(2):
            next(running)
        state = batches.state_dict()
        rest = list(running)
        again = dataset.batches(4, seed=9, ahead=ahead)
        again.load_state_dict(state)
        resumed = list(again)
        assert len(resumed) == len(rest)
        assert all(map(same, rest, resumed))


@pytest.mark.parametrize("ahead", [0, 2])
def test_a_loop_left_early_is_followed_by_the_next_epoch_resumed_or_not(dataset: SequenceDataset, ahead: int):
    batches, again, inside = (dataset.batches(4, seed=9, ahead=ahead) for _ in range(3))
    for given, _ in enumerate(batches, 1):
        if given == 2:
            inside.load_state_dict(batches.state_dict())
            break
    again.load_state_dict(batches.state_dict())
    for next_epoch in (batches, again):
        resumed = list(next_epoch)
        assert len(resumed) == len(batches)
        assert all(same(a, dataset.batch(b)) for a, b in zip(resumed, _items(batches, 1), strict=True))
    assert all(same(a, dataset.batch(b)) for a, b in zip(inside, _items(batches, 0)[2:], strict=True))


def _items(batches: Batches, epoch: int) -> list[torch.Tensor]:
    return [torch.from_numpy(items) for items in batches.order.batches(epoch)]


def test_an_error_in_the_thread_reaches_the_reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    dataset = load(Tokens(), tmp_path)

    def fail(*arguments: Any, **options: Any) -> Any:
        raise RuntimeError("no such batch")

    monkeypatch.setattr(dataset, "batch", fail)
    with pytest.raises(RuntimeError, match="no such batch"):
        list(dataset.batches(4, ahead=2))


def test_leaving_early_stops_the_thread(dataset: SequenceDataset):
    import threading

    before = threading.active_count()
    for _ in dataset.batches(1, ahead=2):
        break
    assert threading.active_count() == before


def test_mistakes(tmp_path: Path):
    with pytest.raises(UnknownNameError, match="unknown split 'tests'; did you mean 'test'"):
        load(Tokens(), tmp_path, "tests")
    with pytest.raises(UnknownNameError, match="did you mean 'listops'"):
        load("listop", tmp_path)
    with pytest.raises(ArgumentError, match="give count to the task itself"):
        load(Tokens(), tmp_path, count=3)
    with pytest.raises(ArgumentError, match="ahead counts batches"):
        load(Tokens(), tmp_path).batches(2, ahead=-1)
