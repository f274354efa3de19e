"""A split of a prepared task as a PyTorch data set, and the batches it makes."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Required, TypedDict

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn
from torch.utils.data import Dataset

from wellposed.data._rows import Rows, to_device
from wellposed.data._vocabulary import PAD, Vocabulary
from wellposed.errors import ArgumentError, ShapeError

if TYPE_CHECKING:
    from wellposed.data._batches import Batches

Source = Literal["published", "generated", "stand-in"]


@dataclass(frozen=True)
class Info:
    """What the sequences of a task are, whichever the split."""

    task: str
    source: Source
    """Where they come from: the authors' own files, our generator, or other data in place of them."""
    length: int
    """Steps of the longest sequence allowed."""
    channels: int | None = None
    """Numbers a step; ``None`` for tokens."""
    vocabulary: Vocabulary | None = None
    classes: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    """What is to be predicted where it is numbers and not a class."""
    picture: tuple[int, int] | None = None
    """Height and width, where a sequence is the pixels of a picture row by row."""
    mean: tuple[float, ...] | None = None
    """Of each channel, of pixels between 0 and 1: what comes out is (x - mean) / std."""
    std: tuple[float, ...] | None = None
    pairs: bool = False


class Sizes(TypedDict, total=False):
    """What a model must know of its data."""

    d_input: Required[int | None]
    d_output: Required[int]
    vocabulary: int
    padding_idx: int


class Batch(NamedTuple):
    """Sequences side by side. ``lengths`` is ``None`` where all are of one length."""

    x: Shaped[Tensor, "batch length *channel"]
    y: Shaped[Tensor, "batch *target"]
    lengths: Int[Tensor, " batch"] | None = None

    def through(self, model: nn.Module) -> Tensor:
        """What the model says about them: ``model(x, lengths=lengths)``."""
        return model(self.x, lengths=self.lengths)


class PairBatch(NamedTuple):
    """Pairs of sequences, the first ones in ``a`` and the second ones in ``b``."""

    a: Shaped[Tensor, "batch length_a *channel"]
    b: Shaped[Tensor, "batch length_b *channel"]
    y: Shaped[Tensor, " batch"]
    lengths_a: Int[Tensor, " batch"] | None = None
    lengths_b: Int[Tensor, " batch"] | None = None

    def through(self, model: nn.Module) -> Tensor:
        """What the model says about them: ``model(a, b, lengths_a=..., lengths_b=...)``."""
        return model(self.a, self.b, lengths_a=self.lengths_a, lengths_b=self.lengths_b)


class SequenceDataset(Dataset):
    """One split of a task: ``dataset[i]`` is a sequence and its target, two sequences for pairs.

    Tokens are int64 ``(length,)``, numbers float32 ``(length, channel)``, classes int64, other targets float32. Use
    ``batches`` for speed, or any ``DataLoader`` with ``collate_fn=dataset.collate``.
    """

    def __init__(
        self,
        info: Info,
        split: str,
        rows: Rows,
        y: Shaped[Tensor, "item *target"],
        pairs: Int[Tensor, "item 2"] | None = None,
    ) -> None:
        self.info, self.split, self.rows, self.y, self.pairs = info, split, rows, y, pairs
        if len(y) != (len(rows) if pairs is None else len(pairs)):
            raise ShapeError(f"{len(rows)} sequences, {len(y)} targets: each needs one")

    def __len__(self) -> int:
        return len(self.y)

    def __repr__(self) -> str:
        channels = f"{self.info.channels} channel{'s' if self.info.channels != 1 else ''}"
        what = f"{len(self.vocabulary)} tokens" if self.vocabulary else channels
        aim = f"{len(self.classes)} classes" if self.classes else f"targets {', '.join(self.info.targets)}"
        kind = "pairs" if self.info.pairs else "sequences"
        return (
            f"SequenceDataset({self.info.task} {self.split}: {len(self)} {kind} of up to {self.info.length} steps, "
            f"{what}, {aim}, {self.info.source})"
        )

    @property
    def vocabulary(self) -> Vocabulary | None:
        """The tokens and their numbers; ``None`` where a step is numbers."""
        return self.info.vocabulary

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes in the order of their numbers; none where the target is numbers."""
        return self.info.classes

    @cached_property
    def lengths(self) -> Int[Tensor, " item"]:
        """Steps of every item; of the longer sequence for pairs."""
        lengths = self.rows.lengths
        return lengths if self.pairs is None else lengths[self.pairs].amax(1)

    def __getstate__(self) -> dict[str, Any]:
        """Without the lengths: sent along to another process they would move, away from views of them."""
        return {name: value for name, value in self.__dict__.items() if name != "lengths"}

    @property
    def sizes(self) -> Sizes:
        """What a model must know of the data: ``SequenceClassifier(**dataset.sizes)``."""
        outputs = len(self.classes) or len(self.info.targets)
        if self.vocabulary is None:
            return {"d_input": self.info.channels, "d_output": outputs}
        return {"d_input": None, "d_output": outputs, "vocabulary": len(self.vocabulary), "padding_idx": PAD}

    @property
    def nbytes(self) -> int:
        """Room of the sequences as they are kept."""
        return self.rows.nbytes

    def to(self, device: Any) -> SequenceDataset:
        """The same with all sequences on a device; batches are then cut there."""
        return SequenceDataset(self.info, self.split, self.rows.to(device), self.y, self.pairs)

    def scaled(self, mean: Sequence[float], std: Sequence[float]) -> SequenceDataset:
        """The same pixels with another normalisation, (x - mean) / std of pixels between 0 and 1."""
        channels = self.info.channels
        if self.info.mean is None or len(mean) != channels or len(std) != channels or min(std) <= 0:
            raise ArgumentError(f"pixels of {channels} channels take as many means and positive deviations")
        info = replace(self.info, mean=tuple(mean), std=tuple(std))
        return SequenceDataset(info, self.split, self.rows, self.y, self.pairs)

    def __getitem__(self, item: int) -> tuple[Tensor, ...]:
        item = range(len(self))[operator.index(item)]
        rows = (item,) if self.pairs is None else self.pairs[item].tolist()
        return *(self.decode(self.rows[row].clone()) for row in rows), self.y[item].clone()

    def batch(
        self, items: Sequence[int] | Int[Tensor, " batch"], *, multiple: int = 1, device: Any = None
    ) -> Batch | PairBatch:
        """These items side by side, padded on the right to the longest, rounded up to a ``multiple``."""
        items = torch.as_tensor(items)
        if not len(items) or not 0 <= int(items.min()) <= int(items.max()) < len(self):
            raise ArgumentError(f"a batch is one or more items from 0 to {len(self) - 1}")
        y = to_device(self.y[items], self.rows.device if device is None else device)
        if self.pairs is None:
            x, lengths = self._padded(items, multiple, device)
            return Batch(x, y, lengths)
        (a, lengths_a), (b, lengths_b) = (self._padded(rows, multiple, device) for rows in self.pairs[items].T)
        return PairBatch(a, b, y, lengths_a, lengths_b)

    def collate(self, items: Sequence[tuple[Tensor, ...]]) -> Batch | PairBatch:
        """Items as ``dataset[i]`` gives them, side by side: for a ``DataLoader``."""
        *sequences, y = zip(*items, strict=True)
        padded = [nn.utils.rnn.pad_sequence(list(s), batch_first=True, padding_value=PAD) for s in sequences]
        lengths = [torch.tensor([len(x) for x in s]) if self.rows.ragged else None for s in sequences]
        if self.pairs is None:
            return Batch(padded[0], torch.stack(y), lengths[0])
        (a, b), (lengths_a, lengths_b) = padded, lengths
        return PairBatch(a, b, torch.stack(y), lengths_a, lengths_b)

    def batches(self, batch_size: int, **options: Any) -> Batches:
        """Batches in an order of your choice: see ``Batches``."""
        from wellposed.data._batches import Batches

        return Batches(self, batch_size, **options)

    def _padded(self, rows: Tensor, multiple: int, device: Any) -> tuple[Tensor, Tensor | None]:
        x, lengths = self.rows.gather(rows, multiple)
        x = x if device is None else to_device(x, device)
        return self.decode(x), None if lengths is None else to_device(lengths, x.device)

    def decode(self, x: Shaped[Tensor, "..."]) -> Float[Tensor, "..."] | Int[Tensor, "..."]:
        """Sequences as a model takes them, from what ``rows`` keeps: int64 tokens, or float32 numbers, scaled."""
        if self.vocabulary is not None:
            return x.long()
        if self.info.mean is None or self.info.std is None:
            return x.float()
        # By scalars, a channel at a time: tensors of mean and std would have to be sent to the device first.
        out, channels = x.float(), range(len(self.info.mean))
        for c, mean, std in zip(channels, self.info.mean, self.info.std, strict=True):
            part = out if len(channels) == 1 else out[..., c]
            part.mul_(1 / (255 * std)).sub_(mean / std)
        return out
