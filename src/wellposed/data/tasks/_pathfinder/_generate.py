"""Pictures by number: picture i of a seed is the same in whatever batch it is made."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wellposed import _checks
from wellposed.data.tasks._pathfinder._parameters import Parameters
from wellposed.data.tasks._pathfinder._sprites import Tables, tables
from wellposed.errors import ArgumentError


@dataclass(frozen=True, eq=False)
class Pictures:
    """Pictures, labels, and the geometry they were drawn from; points are (y, x)."""

    images: NDArray[np.uint8]
    """(count, size, size)."""
    labels: NDArray[np.uint8]
    """(count,): 1 if one path joins the two discs, 0 if each disc is on a path of its own."""
    markers: NDArray[np.int16]
    """(count, 2, 2): centres of the discs, first the one on an origin, then the one on a far end."""
    snakes: NDArray[np.int16]
    """(count, 2, contour_length, 2, 2): tail and head of each paddle of the two paths, from origin to far end."""
    headings: NDArray[np.float64]
    """(count, 2, contour_length): direction of these paddles from tail to head, y = sin, x = cos, in radians."""
    distractors: NDArray[np.int16]
    """(count, distractors, distractor_length, 2, 2): the same for the distractors, -1 for those left out."""
    distractor_headings: NDArray[np.float64]
    """(count, distractors, distractor_length): nan for those left out."""
    placed: NDArray[np.int64]
    """(count,): distractors that found room."""
    margins: NDArray[np.int64]
    """(count,): half the gap between consecutive paddles."""
    attempts: NDArray[np.int64]
    """(count,): how often the pair of paths was begun."""

    def __len__(self) -> int:
        return len(self.images)


def generate(count: int, parameters: Parameters, seed: int | np.random.SeedSequence, *, first: int = 0) -> Pictures:
    """Make pictures number `first` to `first + count - 1` of a seed.

    A picture depends on the parameters, the seed and its number only: shards may be made in any order, in parallel
    (threads suffice, the compiled part releases the interpreter's lock), and made again.
    """
    if count < 0 or first < 0:
        raise ArgumentError(f"count = {count}, first = {first}: pass integers >= 0")
    root = _root(seed)
    pictures = _allocate(count, parameters)
    for i in range(count):
        key = (*root.spawn_key, first + i)
        child = np.random.SeedSequence(root.entropy, spawn_key=key, pool_size=root.pool_size)
        _fill(pictures, i, parameters, np.random.Generator(np.random.PCG64(child)))
    return pictures


def _root(seed: int | np.random.SeedSequence) -> np.random.SeedSequence:
    if isinstance(seed, np.random.SeedSequence):
        return seed
    return np.random.SeedSequence(_checks.seed(seed))


def _allocate(count: int, p: Parameters) -> Pictures:
    pair = (count, 2, p.contour_length)
    short = (count, p.distractors, p.distractor_length)
    return Pictures(
        images=np.zeros((count, p.size, p.size), np.uint8),
        labels=np.zeros(count, np.uint8),
        markers=np.zeros((count, 2, 2), np.int16),
        snakes=np.zeros((*pair, 2, 2), np.int16),
        headings=np.zeros(pair),
        distractors=np.full((*short, 2, 2), -1, np.int16),
        distractor_headings=np.full(short, np.nan),
        placed=np.zeros(count, np.int64),
        margins=np.zeros(count, np.int64),
        attempts=np.zeros(count, np.int64),
    )


def _fill(pictures: Pictures, i: int, p: Parameters, rng: np.random.Generator) -> None:
    """Make picture i. The label comes first in the stream, so that it cannot depend on the geometry."""
    from wellposed.data.tasks._pathfinder._drawing import draw
    from wellposed.data.tasks._pathfinder._growth import MOST_ATTEMPTS, STROKE, grow_distractors, grow_pair

    label = int(rng.random() < 0.5)
    origin = int(rng.random() < 0.5)
    margin = p.margins[int(rng.random() * len(p.margins))]
    t = tables(p, margin)
    field = np.empty((p.size, p.size))
    snakes = np.zeros((2, p.contour_length, STROKE), np.int64)
    attempts = grow_pair(t, field, snakes, rng)
    if not attempts:
        raise ArgumentError(
            f"no pair of paths of contour_length = {p.contour_length} fitted into size = {p.size} in "
            f"{MOST_ATTEMPTS} attempts: pass a shorter contour_length or a larger size"
        )
    short = np.zeros((p.distractors, p.distractor_length, STROKE), np.int64)
    placed = grow_distractors(t, field, short, p.max_distractor_contour_retrial + 1, rng)
    tips = _tips(t, snakes)
    other = origin if label else 1 - origin
    markers = np.stack([tips[origin, 0, 0], tips[other, -1, 1]])
    pictures.images[i] = draw(p, t, snakes, short[:placed], markers)
    pictures.labels[i], pictures.markers[i] = label, markers
    pictures.snakes[i], pictures.headings[i] = tips, t.angle[snakes[..., 2]]
    pictures.distractors[i, :placed] = _tips(t, short[:placed])
    pictures.distractor_headings[i, :placed] = t.angle[short[:placed, :, 2]]
    pictures.placed[i], pictures.margins[i], pictures.attempts[i] = placed, margin, attempts


def _tips(t: Tables, strokes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Tail and head (..., 2, 2): first paddles are drawn from the tail, the others from the head."""
    start, direction = strokes[..., :2], strokes[..., 2]
    end = np.ceil(start + t.tip[direction]).astype(np.int64)
    first = (np.arange(strokes.shape[-2]) == 0)[:, None]
    return np.stack([np.where(first, start, end), np.where(first, end, start)], axis=-2)
