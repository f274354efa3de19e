"""Growing the paths: compiled, with every test confined to the box it can depend on.

A stroke is (y, x, direction, pivot y, pivot x): where a paddle is drawn from, which sprite it is, and the point behind
it that it turned on. All randomness is `rng.random()`, so that a transcription in plain Python can follow the stream.
The compiled functions are kept on disk until this file changes: those that call each other stay together here.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from wellposed.data.tasks._compiled import compiled
from wellposed.data.tasks._pathfinder._sprites import Tables

Strokes = NDArray[np.int64]
Field = NDArray[np.float64]

STROKE = 5
DEGREES = 360
FREE = 0.3  # a mask value up to this counts as empty
CLASH = 1.8  # two surroundings may overlap as long as their sum stays below this
MOST_ATTEMPTS = 1_000_000


@compiled
def draw_below(rng: np.random.Generator, count: int) -> int:
    """A uniform integer in 0 .. count - 1."""
    return int(rng.random() * count)


@compiled
def grow_pair(t: Tables, field: Field, snakes: Strokes, rng: np.random.Generator) -> int:
    """Grow both paths into an empty picture, starting over until they fit; return the number of attempts.

    `field` receives the mask, `snakes` (2, contour_length, 5) the strokes. 0 means that no attempt succeeded.
    """
    for attempt in range(1, MOST_ATTEMPTS + 1):
        field[:] = t.blank
        if _attempt_pair(t, field, snakes, rng):
            return attempt
    return 0


@compiled
def _attempt_pair(t: Tables, field: Field, snakes: Strokes, rng: np.random.Generator) -> bool:
    size = len(field)
    if not _first_seed(t, size, snakes[0, 0], rng) or not _second_seed(t, size, snakes[0, 0], snakes[1, 0], rng):
        return False
    for k in range(1, snakes.shape[1]):
        for s in range(2):
            if not _extend(t, field, snakes[s, k - 1], snakes[s, k], rng):
                return False
    # the last paddle of the first path is left out, as in the original: distractors do not see it
    _merge(t, field, snakes[1, -1])
    return True


@compiled
def _first_seed(t: Tables, size: int, stroke: Strokes, rng: np.random.Generator) -> bool:
    for _ in range(t.tries):
        d = draw_below(rng, DEGREES)
        y0, y1, x0, x1 = t.start[d]
        rows, columns = max(y1 - y0 + 1, 0), max(x1 - x0 + 1, 0)
        if not t.usable[d] or rows * columns == 0:
            return False
        k = draw_below(rng, rows * columns)
        if _place_seed(t, size, y0 + k // columns, x0 + k % columns, d, stroke):
            return True
    return False


@compiled
def _second_seed(t: Tables, size: int, first: Strokes, stroke: Strokes, rng: np.random.Generator) -> bool:
    for _ in range(t.tries):
        away = t.apart[draw_below(rng, DEGREES)]
        d = draw_below(rng, DEGREES)
        if _place_seed(t, size, int(np.rint(first[0] + away[0])), int(np.rint(first[1] + away[1])), d, stroke):
            return True
    return False


@compiled
def _place_seed(t: Tables, size: int, y: int, x: int, d: int, stroke: Strokes) -> bool:
    """Put a first paddle's tail at (y, x), if its head and its pivot are inside the picture."""
    v, u = math.ceil(y + t.tip[d, 0]), math.ceil(x + t.tip[d, 1])
    stroke[:3] = y, x, d
    stroke[3:] = math.ceil(v + t.recoil[d, 0]), math.ceil(u + t.recoil[d, 1])
    return _inside(size, y, x) and _inside(size, v, u) and _inside(size, stroke[3], stroke[4])


@compiled
def _inside(size: int, y: int, x: int) -> bool:
    return 0 <= y < size and 0 <= x < size


@compiled
def _extend(t: Tables, field: Field, last: Strokes, new: Strokes, rng: np.random.Generator) -> bool:
    """Add one paddle to a path; the one before it enters the mask only then, so that the two may be close."""
    y, x = math.ceil(last[3] + t.stride[last[2], 0]), math.ceil(last[4] + t.stride[last[2], 1])
    weights = np.empty(len(t.circle))
    total = _weigh(t, field, y, x, last[2], weights)
    if total < 1e-4:
        return False
    for _ in range(t.tries):
        j = _choose(weights, rng.random() * total)
        new[:3] = y + t.circle[j, 0], x + t.circle[j, 1], DEGREES + j
        new[3:] = y, x
        if _fits(t, field, new):
            _merge(t, field, last)
            return True
    return False


@compiled
def _weigh(t: Tables, field: Field, y: int, x: int, d: int, weights: NDArray[np.float64]) -> float:
    """How likely each pixel around the pivot is the next head; returns the sum."""
    size = len(field)
    total = 0.0
    for j in range(len(t.circle)):
        weight = t.affinity[d, j]
        if weight > 0:
            v, u = y + t.circle[j, 0], x + t.circle[j, 1]
            weight *= 1 - _dilated(t, field, v, u) if _inside(size, v, u) else 0.0
        weights[j] = weight
        total += weight
    return total


@compiled
def _dilated(t: Tables, field: Field, y: int, x: int) -> float:
    size = len(field)
    most = 0.0
    for i in range(len(t.disc)):
        v, u = y + t.disc[i, 0], x + t.disc[i, 1]
        if _inside(size, v, u):
            most = max(most, float(field[v, u]))
    return most


@compiled
def _choose(weights: NDArray[np.float64], threshold: float) -> int:
    """The first index where the running sum exceeds the threshold."""
    reached = 0.0
    last = 0
    for j in range(len(weights)):
        reached += weights[j]
        if weights[j] > 0:
            last = j
        if reached > threshold:
            return j
    return last


@compiled
def _fits(t: Tables, field: Field, stroke: Strokes) -> bool:
    size, half = len(field), t.mask.shape[1] // 2
    top, left = stroke[0] - half, stroke[1] - half
    mask = t.mask[stroke[2]]
    for i in range(max(0, -top), min(len(mask), size - top)):
        for j in range(max(0, -left), min(len(mask), size - left)):
            if field[top + i, left + j] + mask[i, j] >= CLASH:
                return False
    return True


@compiled
def _merge(t: Tables, field: Field, stroke: Strokes) -> None:
    """Take a paddle's surroundings into the mask."""
    size, half = len(field), t.mask.shape[1] // 2
    top, left = stroke[0] - half, stroke[1] - half
    mask = t.mask[stroke[2]]
    for i in range(max(0, -top), min(len(mask), size - top)):
        for j in range(max(0, -left), min(len(mask), size - left)):
            field[top + i, left + j] = max(field[top + i, left + j], mask[i, j])


@compiled
def grow_distractors(t: Tables, field: Field, strokes: Strokes, attempts: int, rng: np.random.Generator) -> int:
    """Grow short paths where there is room; return how many of `strokes` (distractors, length, 5) are filled."""
    placed = 0
    for _ in range(len(strokes)):
        for _ in range(attempts):
            before = field.copy()
            if _attempt_distractor(t, field, strokes[placed], rng):
                placed += 1
                break
            field[:] = before
    return placed


@compiled
def _attempt_distractor(t: Tables, field: Field, strokes: Strokes, rng: np.random.Generator) -> bool:
    if not _distractor_seed(t, field, strokes[0], rng):
        return False
    for k in range(1, len(strokes)):
        if not _extend(t, field, strokes[k - 1], strokes[k], rng):
            return False
    _merge(t, field, strokes[-1])
    return True


@compiled
def _distractor_seed(t: Tables, field: Field, stroke: Strokes, rng: np.random.Generator) -> bool:
    size = len(field)
    free = np.empty(field.size, np.int64)
    for _ in range(t.tries):
        d = draw_below(rng, DEGREES)
        if not t.usable[d] or np.sum(field <= FREE) < 0.01 * field.size:
            return False
        count = _find_free(t, field, d, free)
        if not count:
            return False
        k = free[draw_below(rng, count)]
        if _place_seed(t, size, k // size, k % size, d, stroke):
            return True
    return False


@compiled
def _find_free(t: Tables, field: Field, d: int, free: NDArray[np.int64]) -> int:
    """List the pixels from which a first paddle in direction d meets nothing; return how many there are."""
    size = len(field)
    kernel = t.kernel[d]
    count = 0
    for y in range(size):
        for x in range(size):
            if _clear(field, kernel, y, x):
                free[count] = y * size + x
                count += 1
    return count


@compiled
def _clear(field: Field, kernel: NDArray[np.int64], y: int, x: int) -> bool:
    size = len(field)
    for i in range(len(kernel)):
        v, u = y + kernel[i, 0], x + kernel[i, 1]
        if _inside(size, v, u) and field[v, u] > FREE:
            return False
    return True
