"""From strokes to pixels."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from wellposed.data.tasks._compiled import compiled
from wellposed.data.tasks._pathfinder._growth import STROKE, Strokes
from wellposed.data.tasks._pathfinder._parameters import Parameters
from wellposed.data.tasks._pathfinder._sprites import Tables, disc, lanczos


def draw(
    p: Parameters, t: Tables, snakes: Strokes, distractors: Strokes, markers: NDArray[np.int64]
) -> NDArray[np.uint8]:
    """The picture: strokes of the two paths (..., 5), of the distractors (..., 5), and two discs (2, 2)."""
    canvas = np.zeros((p.size, p.size))
    paint(canvas, t.paddle, snakes.reshape(-1, STROKE), p.snake_contrast * p.paddle_contrast)
    paint(canvas, t.paddle, distractors.reshape(-1, STROKE), p.snake_contrast)
    for y, x in markers:
        np.maximum(canvas, _marker(p, int(y), int(x)) / 255, out=canvas)
    return stretch(canvas)


@compiled
def paint(canvas: NDArray[np.float64], paddle: NDArray[np.uint8], strokes: Strokes, contrast: float) -> None:
    """Draw the strokes; where they overlap the brighter one shows."""
    size, side = len(canvas), paddle.shape[1]
    for s in range(len(strokes)):
        top, left = strokes[s, 0] - side // 2, strokes[s, 1] - side // 2
        sprite = paddle[strokes[s, 2]]
        for i in range(max(0, -top), min(side, size - top)):
            for j in range(max(0, -left), min(side, size - left)):
                value = sprite[i, j] / 255 * contrast
                canvas[top + i, left + j] = max(canvas[top + i, left + j], value)


@lru_cache(maxsize=1024)
def _marker(p: Parameters, y: int, x: int) -> NDArray[np.uint8]:
    """A disc drawn on the large grid, at a corner of the pixel rather than at its centre.

    Kept, for it took up to a third of a picture's time, with the interpreter's lock held: of Pathfinder's 32 x 32
    places; Path-X has more than are kept, and other work to do.
    """
    side = p.antialias * p.size
    radius = p.antialias * p.marker_radius
    shape, reach = disc(radius), math.floor(radius)
    top, left = p.antialias * y - reach, p.antialias * x - reach
    large = np.zeros((side, side), np.uint8)
    cut = shape[max(0, -top) : side - top, max(0, -left) : side - left]
    large[max(0, top) : top + len(shape), max(0, left) : left + len(shape)] = 255 * cut.astype(np.uint8)
    return lanczos(large, p.size)


def stretch(canvas: NDArray[np.float64]) -> NDArray[np.uint8]:
    """The least value becomes 0, the greatest 255; halves are rounded up."""
    least, greatest = canvas.min(), canvas.max()
    scale = 255 / (greatest - least)
    return (np.clip((canvas - least) * scale, 0, 255) + 0.5).astype(np.uint8)
